/** Declared routes: their router, parameters and bodies. */

export { containerRequestSchema } from '../api/container/container-schema.ts';
export { type ParamSchemas, type ParamsOf, pathNumber } from './declaration.ts';
export type { OpenApi } from './describe-api.ts';
export { parseBody, parseParams, parseQuery } from './parse-input.ts';
export { createRouter, labelOf } from './router.ts';
