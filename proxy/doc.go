// Package proxy is vitrine's HTTP server: three routes, answered as docs/http.md describes from prepared
// representations. Only this package uses Fiber.
//
// One request goes through it in this order, which is that of Django REST Framework:
//
//  1. the path picks a resource, a redirect to the right path, or 404 (route.go);
//  2. a CORS preflight is answered as one (cors.go);
//  3. the format parameter is looked at (query.go), then Accept (accept.go), and only then the method;
//  4. a GET or HEAD asks the resource's [Source] for its document, which on a hit is an atomic load;
//  5. of that document the form that is wanted is picked (the CMS's order or another, compact or indented), and of
//     the form the representation that Accept-Encoding asks for (form.go). Each was made once and is shared;
//  6. the conditions of the request decide between 200 and 304 (conditional.go), and prepared header fields and bytes
//     are written (answer.go). What changes with the second (Age, Cache-Control, Cache-Status) is rendered once or
//     twice a second and shared too (moment.go).
//
// Whatever goes wrong on the way is an error that is returned, and one table says how it is answered (errors.go).
package proxy
