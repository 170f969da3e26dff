package env

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestTheHubServesConvoysTypes(t *testing.T) {
	resources, err := kube(t, local.Hub).Discovery().ServerResourcesForGroupVersion("core.convoy.kumodo.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, resource := range resources.APIResources {
		kinds[resource.Kind] = true
	}
	if !kinds["Cluster"] || !kinds["Release"] {
		t.Errorf("the hub serves %v, want Cluster and Release", kinds)
	}
}

func TestAControlPlaneComesBackWithItsPortCertificatesAndData(t *testing.T) {
	for name, end := range map[string]func() error{"after Stop": local.Hub.Stop, "after Kill": local.Hub.Kill} {
		t.Run(name, func(t *testing.T) {
			client := kube(t, local.Hub)
			object := createConfigMap(t, client)
			pids := local.Hub.PIDs()
			if err := end(); err != nil {
				t.Fatal(err)
			}
			for program, pid := range pids {
				if identity(pid) != "" {
					t.Errorf("%s still runs", program)
				}
			}
			if _, err := client.Discovery().ServerVersion(); err == nil {
				t.Error("the API server answers though it was ended")
			}
			if err := local.Hub.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			// The same client, with the same URL and trust, finds the same object.
			found, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), object.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object, found); diff != "" {
				t.Errorf("the object changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAFrozenControlPlaneAnswersNothingUntilThawed(t *testing.T) {
	client := kube(t, local.Hub)
	if err := local.Hub.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	_, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request to a frozen API server ends with %v, want the deadline", err)
	}
	if err := local.Hub.Thaw(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a request after the thaw: %v", err)
	}
}

func TestAFrozenControlPlaneCanBeStopped(t *testing.T) {
	if err := local.Hub.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := local.Hub.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := local.Hub.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestUsersHaveTheRightsThatRBACGivesAndAreToldApartInTheAuditLog(t *testing.T) {
	kubeconfig, err := local.Hub.KubeconfigFor("auditor-"+unique(), "some-group")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights gets %v, want forbidden", err)
	}
	raw, err := clientcmd.Load(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	user := raw.Contexts[raw.CurrentContext].AuthInfo
	eventually(t, "the request is in the audit log", func(context.Context) error {
		events, err := local.Hub.AuditEvents()
		if err != nil {
			return err
		}
		for _, event := range events {
			if event.User.Username == user && event.Verb == "list" && event.Stage == auditv1.StageResponseComplete &&
				event.ObjectRef.Resource == "secrets" && event.ResponseStatus.Code == 403 {
				return nil
			}
		}
		return fmt.Errorf("not among %d events", len(events))
	})
}

func TestADeploymentBecomesReadyAndAJobCompletesOnATargetWithWorkloads(t *testing.T) {
	client := kube(t, local.Targets[0])
	namespace := createNamespace(t, client)
	labels := map[string]string{"app": "web"}
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/web:1"}}},
	}
	replicas := int32(3)
	_, err := client.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	once := pod.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err = client.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "once"}, Spec: batchv1.JobSpec{Template: *once},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment is ready", func(ctx context.Context) error {
		web, err := client.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && web.Status.ReadyReplicas != replicas {
			err = fmt.Errorf("%d of %d replicas are ready", web.Status.ReadyReplicas, replicas)
		}
		return err
	})
	eventually(t, "the Job is complete", func(ctx context.Context) error {
		job, err := client.BatchV1().Jobs(namespace).Get(ctx, "once", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded != 1 {
			err = fmt.Errorf("%d pods succeeded", job.Status.Succeeded)
		}
		return err
	})
	if err := client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace goes away with all its pods", func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it still exists"))
	})
}

func TestATargetWithWorkloadsComesBackAfterKill(t *testing.T) {
	target := local.Targets[0]
	if err := target.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := target.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(target.PIDs()); got != 5 {
		t.Errorf("%d programs run, want etcd, API server, controller-manager, scheduler and kwok", got)
	}
}

func TestATargetCanBeAddedToARunningEnvironment(t *testing.T) {
	name := "late-" + unique()
	target, err := local.AddTarget(t.Context(), ControlPlaneOptions{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Kill(); err != nil {
			t.Error(err)
		}
	})
	// Without controllers, pods need no service account.
	_, err = kube(t, target).CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "bare"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/web:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Error(err)
	}
	if _, err := local.AddTarget(t.Context(), ControlPlaneOptions{Name: name}); err == nil {
		t.Error("a second target of the same name is accepted")
	}
}

func createConfigMap(t *testing.T, client kubernetes.Interface) *corev1.ConfigMap {
	t.Helper()
	object, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "kept-"}, Data: map[string]string{"a": "b"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func createNamespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace has its service account", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return namespace.Name
}

// unique is a name that no other run of a test uses.
func unique() string { return fmt.Sprintf("%x", time.Now().UnixNano()) }
