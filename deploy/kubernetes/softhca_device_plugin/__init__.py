"""A device plugin of Kubernetes: a pod that asks for softhca.io/TEMPLATE gets a tenant of softhcad's own."""
