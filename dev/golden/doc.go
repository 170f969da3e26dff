// Package golden renders public inputs, as people deliver them, and compares the renders with those of Helm and kustomize
// themselves. The inputs are taken out of their Go modules, never committed. Its tests are all there is.
package golden
