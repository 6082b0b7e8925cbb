"""The bounded space in which an agent works: documents as files, scope, ordered scan, read, probe, traces."""
