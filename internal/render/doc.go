// Package render turns the files of a bundle into objects, and keeps what it made. It decides how a tree is read (as a
// kustomization, as a chart or as plain manifests), what a valid set of objects is, what mutations change, and the one
// canonical form whose digest names the render: the same input gives the same bytes, always. It never contacts a
// target, runs no program but its own and reaches no network; only Store talks to the hub. The activities call it.
//
// # Which files count
//
// A source whose folder holds a kustomization.yaml, kustomization.yml or Kustomization is built by kustomize, in
// a process of its own, and only what that refers to counts. One whose folder holds a Chart.yaml is rendered as a chart. In any other source every .yaml, .yml and .json file counts, in the order of the paths,
// except below or in a name that begins with a dot. A file of which no document is an object (chart values, kustomize's
// own files, empty files) is skipped and named; a document that is no object beside one that is, or that has
// only one of apiVersion, kind and metadata, is an error.
//
// # Charts
//
// Helm's libraries read a chart, lay values over each other and make the scopes of templates. The templates run
// here, around text/template with sprig's functions and Helm's, since Helm's engine can be neither ended nor bounded; tests
// hold the one against the other. No function gives time or chance, and nothing is fetched.
package render
