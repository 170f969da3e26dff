package env

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"
)

// databases of a Temporal server, by the folder of their schema. Each is copied from a template, so that an empty one takes a moment.
var databases = map[string]string{"temporal": "postgresql/v12/temporal", "visibility": "postgresql/v12/visibility"}

// superuser is whom the database belongs to. It listens on loopback only, and asks for no password.
const superuser = "temporal"

// postgres is the database of a Temporal server. It stays up while that is stopped, killed and started.
type postgres struct {
	bin     string // folder of its programs
	data    string // folder of its data, outside the work folder when another user has to enter it
	port    *port
	as      *syscall.Credential // whom it runs as; nil for ourselves
	tools   string              // folder of temporal-sql
	process *process
	made    bool // the templates are there
}

// newPostgres prepares a database. It starts nothing.
func newPostgres(e *Env, p *port) (*postgres, error) {
	for _, name := range []string{"temporal-server", "temporal-sql"} {
		if _, err := os.Stat(filepath.Join(e.bin, name)); err != nil {
			return nil, fmt.Errorf("%s is missing: run `make tools-postgres`", filepath.Join(e.bin, name))
		}
	}
	db := &postgres{port: p, tools: e.bin, data: filepath.Join(e.run, "postgres")}
	var err error
	if db.bin, err = postgresBin(); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 { // which PostgreSQL refuses to run as
		if err := db.runAsPostgres(); err != nil {
			return nil, err
		}
	}
	db.process = e.process("temporal", "postgres", []string{
		"-D", db.data, "-p", strconv.Itoa(p.number), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=200",
		// Nobody needs the data after the machine has failed.
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off",
	})
	db.process.path, db.process.as = filepath.Join(db.bin, "postgres"), db.as
	if db.as != nil {
		db.process.workDir = db.data
	}
	return db, nil
}

// postgresBin finds the programs of PostgreSQL, which distributions keep out of the path.
func postgresBin() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.Sort(found)
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append(found, path)
		}
	}
	for _, path := range slices.Backward(found) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "initdb")); err == nil {
			return filepath.Dir(path), nil
		}
	}
	return "", errors.New("PostgreSQL is missing: install the server of PostgreSQL 12 or later, such as Debian's package postgresql")
}

// runAsPostgres makes the database run as the user postgres, with a folder that this user can enter.
func (db *postgres) runAsPostgres() error {
	u, err := user.Lookup("postgres")
	if err != nil {
		return errors.New("PostgreSQL does not run as root, and there is no user postgres to run it as: make one, or run this as another user")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return fmt.Errorf("user postgres: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return fmt.Errorf("user postgres: %w", err)
	}
	db.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if db.data, err = os.MkdirTemp("", "convoy-postgres-"); err != nil {
		return fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	if err := os.Chown(db.data, int(uid), int(gid)); err != nil {
		return errors.Join(fmt.Errorf("make a folder for PostgreSQL: %w", err), os.RemoveAll(db.data))
	}
	return nil
}

// start starts the database, and makes the templates of Temporal's databases the first time.
func (db *postgres) start(ctx context.Context) error {
	if db.process.pid() != 0 {
		return nil
	}
	if !db.made {
		if err := db.run(ctx, db.bin, "initdb", "-D", db.data, "-U", superuser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"); err != nil {
			return err
		}
	}
	if err := db.process.start(); err != nil {
		return err
	}
	if err := db.process.waitReady(ctx, func(ctx context.Context) error { return db.query(ctx, "SELECT 1") }); err != nil {
		return err
	}
	if db.made {
		return nil
	}
	for name, schema := range databases {
		for _, args := range [][]string{{"create-database"}, {"setup-schema", "-v", "0.0"}, {"update-schema", "--schema-name", schema}} {
			all := append([]string{"--plugin", "postgres12", "--ep", "127.0.0.1", "-p", strconv.Itoa(db.port.number), "-u", superuser, "--db", name}, args...)
			if err := db.run(ctx, db.tools, "temporal-sql", all...); err != nil {
				return err
			}
		}
		// Not the other way around: the server looks for the version of its schema under the name that the database had then.
		if err := db.query(ctx, "CREATE DATABASE template_"+name+" TEMPLATE "+name); err != nil {
			return err
		}
	}
	db.made = true
	return nil
}

// empty makes the databases anew from the templates.
func (db *postgres) empty(ctx context.Context) error {
	for name := range databases {
		if err := db.query(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)", "CREATE DATABASE "+name+" TEMPLATE template_"+name); err != nil {
			return err
		}
	}
	return nil
}

func (db *postgres) query(ctx context.Context, statements ...string) error {
	args := []string{"-X", "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(db.port.number), "-U", superuser, "-d", "postgres"}
	for _, statement := range statements {
		args = append(args, "-c", statement)
	}
	return db.run(ctx, db.bin, "psql", args...)
}

// run runs a program to its end, as the user whom the database runs as.
func (db *postgres) run(ctx context.Context, folder, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(folder, name), args...) //nolint:gosec // programs of the environment
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if db.as != nil && folder == db.bin {
		cmd.Dir = db.data
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: db.as}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// release removes the data. The database must be stopped.
func (db *postgres) release() error { return os.RemoveAll(db.data) }

// environment is what the server reads its settings from.
func (db *postgres) environment(ports map[string]*port, dynamic string) []string {
	env := []string{
		"DB=postgres12", "POSTGRES_SEEDS=127.0.0.1", "POSTGRES_USER=" + superuser, "POSTGRES_PWD=none", "DBNAME=temporal", "VISIBILITY_DBNAME=visibility",
		"DB_PORT=" + strconv.Itoa(db.port.number), "NUM_HISTORY_SHARDS=4", "BIND_ON_IP=127.0.0.1", "TEMPORAL_BROADCAST_ADDRESS=127.0.0.1", "LOG_LEVEL=warn",
		"DYNAMIC_CONFIG_FILE_PATH=" + dynamic,
	}
	for name, p := range ports {
		env = append(env, name+"="+strconv.Itoa(p.number))
	}
	slices.Sort(env)
	return env
}

// dynamicConfig is a file with values of the server's dynamic configuration.
func dynamicConfig(values map[string]string) []byte {
	var b strings.Builder
	b.WriteString("{}\n")
	if len(values) > 0 {
		b.Reset()
	}
	for key, value := range values {
		fmt.Fprintf(&b, "%s:\n- value: %s\n", key, value)
	}
	return []byte(b.String())
}

// furnish makes the namespace and its search attributes, which a dev server has by itself.
func (t *Temporal) furnish(ctx context.Context) error {
	c, err := client.NewLazyClient(client.Options{HostPort: t.Address, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: Namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if _, there := errors.AsType[*serviceerror.NamespaceAlreadyExists](err); err != nil && !there {
		return err
	}
	attributes := map[string]enumspb.IndexedValueType{}
	for name, kind := range searchAttributes {
		if attributes[name], err = enumspb.IndexedValueTypeFromString(kind); err != nil {
			return err
		}
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: Namespace, SearchAttributes: attributes})
	if _, there := errors.AsType[*serviceerror.AlreadyExists](err); there {
		return nil
	}
	return err
}
