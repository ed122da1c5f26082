/** Declared routes: their router, parameters and bodies. */

export { pathNumber } from './declaration.ts';
export type { OpenApi } from './describe-api.ts';
export { parseBody } from './parse-input.ts';
export { type Context, type HttpRequest, type Route, routesOf, serveRoutes } from './pipeline.ts';
