// Package metrics keeps the numbers behind the operator's page and /metrics.
//
// One answer goes through it like this: the proxy calls [Meter.Observe], which adds to three counters in the stripe of
// the request's connection, without a lock or an allocation. What is rarer (fetches, purges, refusals) is told by the
// cache's events. Once a second [Meter.Run] looks at how the resources, the CMS and Redis are doing; every ten seconds
// it keeps the sums, so that the last hour can be drawn. [Meter.Collect] gives all of it to Prometheus.
//
// Every label has a fixed set of values: nothing that a client sends makes a new series.
package metrics
