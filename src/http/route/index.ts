/** Declared routes: their router, parameters and bodies. */

export { containerRequestSchema } from '../api/container/container-schema.ts';
export { pathNumber } from './declaration.ts';
export type { OpenApi } from './describe-api.ts';
export { parseBody } from './parse-input.ts';
export { type Context, type HttpRequest, type Route, routesOf, serveRoutes } from './pipeline.ts';
