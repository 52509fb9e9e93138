// Package proxy answers the public routes: three resources, from prepared representations, as
// docs/interface.md describes. Only this package uses Fiber.
//
// One request goes through it in this order, which is that of Django REST Framework:
//
//  1. a connection is accepted within the limit, and waits for requests without a buffer
//     (client.go); the requests on it are framed as their bytes arrive (framing.go), and one pass
//     over the header picks the fields that matter (request.go);
//  2. Fiber routes it through the middleware (app.go) to the handler of its path (routes.go): a
//     document (answer.go), a redirect to the right path, 404, or the answer to a CORS preflight
//     (plain.go);
//  3. the format parameter is checked, then Accept, and only then the method (package negotiate);
//  4. a GET or HEAD asks the resource's [Documents] for its document, which on a hit is an atomic
//     load, and the document for the requested form and content coding (package represent);
//  5. the conditions of the request decide between 200 and 304, and one system call writes prepared
//     lines of the header and the body: lines that never change (terms.go), lines that change with
//     the second, rendered once or twice in it (moment.go), and the entity-tag (client.go).
//
// Every failure is a returned error, and one table says how it is answered (errors.go).
package proxy
