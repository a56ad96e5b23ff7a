// Package site runs the factory on real batch systems, from Debian's packages: a
// Slurm with several slurmd on one machine, a Grid Engine, a computing element of
// ARC. It looks at the live page in Chromium, and has a Prometheus scrape a queue. Its
// tests have the build tag site, need root, install nothing themselves and end what they
// start: `make test-site` installs the packages and runs them, on a machine that may be
// thrown away. All that is ours runs as an ordinary user. The batch systems and Prometheus
// are tested beside each other, each with folders and ports of its own; what uses much of
// a processor, or measures it, runs alone before.
package site
