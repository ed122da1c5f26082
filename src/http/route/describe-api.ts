import { z } from 'zod';
import { Fault, type FaultKind } from '../../foundation/fault.ts';
import { type Documented, namesIn, type ResponseDeclaration } from './declaration.ts';
import { type JsonSchema, jsonSchema } from './json-schema.ts';

/** Describes one kind of access in the OpenAPI document. */
export interface AccessDescription {
  /** Names of security schemes, any one of which is enough; `nothing` for a call without a login. */
  readonly security: readonly string[];
  readonly faults: readonly FaultKind[];
}

export interface Api {
  readonly title: string;
  readonly version: string;
  readonly description: string;
  /** Prefix of every path. */
  readonly base: string;
  readonly routes: readonly Documented[];
  readonly tags: Readonly<Record<string, string>>;
  readonly access: Readonly<Record<string, AccessDescription>>;
  readonly securitySchemes: Readonly<Record<string, object>>;
}

export interface OpenApi {
  readonly openapi: string;
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly description: string;
    readonly license: object;
  };
  readonly paths: Readonly<Record<string, Readonly<Record<string, ApiOperation>>>>;
  readonly components: object;
  readonly [member: string]: unknown;
}

export interface ApiOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly [member: string]: unknown;
}

/** The body of every error. */
const errorSchema = z
  .object({
    message: z.string().describe('What happened, what to do, and the id of its log line'),
  })
  .meta({ title: 'Error', example: { message: 'No such route: ... - Error ID: 6Tq1' } });

/** Returns the OpenAPI document of an API, from the declarations of its routes. Source: OpenAPI 3.1. */
export function describeApi(api: Api): OpenApi {
  const { title, version, description } = api;
  const schemas: Record<string, object> = {};
  const schemaOf: SchemaOf = schema => {
    const { title: name, ...found } = jsonSchema(schema);
    if (name === undefined) return found;
    schemas[name] ??= found;
    return { $ref: `#/components/schemas/${name}` };
  };
  const paths: Record<string, Record<string, ApiOperation>> = {};
  for (const route of api.routes) {
    const path = paths[route.path] ?? {};
    paths[route.path] = path;
    path[route.method] = describeRoute(route, api, schemaOf);
  }
  const error = { 'application/json': { schema: schemaOf(errorSchema) } };
  return {
    openapi: '3.1.0',
    info: {
      title,
      version,
      description,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: api.base, description: 'This server' }],
    tags: Object.entries(api.tags).map(([name, about]) => ({ name, description: about })),
    paths,
    components: {
      schemas,
      headers: Object.fromEntries(
        Object.entries(headers).map(([key, { name: _, ...header }]) => [key, header]),
      ),
      responses: {
        Error: {
          description: 'Any other failure',
          headers: headersOf(everyError),
          content: error,
        },
        ...Object.fromEntries(
          Object.values(faultResponses).map(({ name, about, headers: also = [] }) => [
            name,
            { description: about, headers: headersOf([...everyError, ...also]), content: error },
          ]),
        ),
      },
      securitySchemes: api.securitySchemes,
    },
  };
}

type SchemaOf = (schema: z.ZodType) => JsonSchema;

function describeRoute(route: Documented, { access }: Api, schemaOf: SchemaOf): ApiOperation {
  const { id, tag, summary, description, body, limit, aliases } = route;
  const { security, faults } = access[route.access] ?? { security: [], faults: [] };
  const parameters = [...pathParameters(route, schemaOf), ...queryParameters(route, schemaOf)];
  const statuses = faultStatuses(route, faults);
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    ...(route.isDeprecated ? { deprecated: true } : {}),
    ...(aliases ? { 'x-aliases': aliases } : {}),
    security: security.map(name => (name === 'nothing' ? {} : { [name]: [] })),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body
      ? {
          requestBody: {
            required: true,
            content: { 'application/json': { schema: schemaOf(body.schema), ...exampleOf(body) } },
          },
        }
      : {}),
    responses: {
      ...Object.fromEntries(
        Object.entries(route.responses).map(([status, response]) => [
          status,
          describeResponse(response, limit ? limitHeaderNames : [], schemaOf),
        ]),
      ),
      ...Object.fromEntries(
        statuses.map(status => [
          status,
          { $ref: `#/components/responses/${faultResponses[status]?.name ?? 'Error'}` },
        ]),
      ),
      default: { $ref: '#/components/responses/Error' },
    },
  };
}

function describeResponse(
  response: ResponseDeclaration,
  also: readonly HeaderName[],
  schemaOf: SchemaOf,
): object {
  const { about, schema, types = [] } = response;
  const text = { schema: { type: 'string' }, ...exampleOf(response) };
  const content = schema
    ? { 'application/json': { schema: schemaOf(schema), ...exampleOf(response) } }
    : Object.fromEntries(types.map(type => [type.replace(/;.*/, ''), text]));
  const own = Object.entries(response.headers ?? {}).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ]);
  return {
    description: about,
    headers: { ...headersOf(['RequestId', ...also]), ...Object.fromEntries(own) },
    ...(Object.keys(content).length > 0 ? { content } : {}),
  };
}

function pathParameters({ path, params = {} }: Documented, schemaOf: SchemaOf): object[] {
  return namesIn(path).map(name => {
    const { description, ...schema }: JsonSchema = params[name]
      ? schemaOf(params[name])
      : { type: 'string' };
    return { name, in: 'path', required: true, ...(description ? { description } : {}), schema };
  });
}

function queryParameters({ query }: Documented, schemaOf: SchemaOf): object[] {
  if (!query) return [];
  const { properties = {}, required }: JsonSchema = schemaOf(query);
  const needed = new Set(required as readonly string[] | undefined);
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    ...(needed.has(name) ? { required: true } : {}),
    ...(description ? { description } : {}),
    schema,
  }));
}

function exampleOf({ example }: { readonly example?: unknown }): object {
  return example === undefined ? {} : { example };
}

function headersOf(names: readonly HeaderName[]): Record<string, object> {
  return Object.fromEntries(
    names.map(key => [headers[key].name, { $ref: `#/components/headers/${key}` }]),
  );
}

/** Headers of responses, by their name in the OpenAPI document. */
const headers = {
  RateLimitLimit: {
    name: 'RateLimit-Limit',
    description: 'On routes with a rate limit: calls that the limit allows in its time span',
    schema: { type: 'integer' },
  },
  RateLimitRemaining: {
    name: 'RateLimit-Remaining',
    description: 'On routes with a rate limit: remaining calls',
    schema: { type: 'integer' },
  },
  RateLimitReset: {
    name: 'RateLimit-Reset',
    description:
      'On routes with a rate limit: seconds until all calls are available again; with none left, until the next one is',
    schema: { type: 'integer' },
  },
  RetryAfter: {
    name: 'Retry-After',
    description: 'Seconds to wait before the next attempt',
    schema: { type: 'integer' },
  },
  RequestId: {
    name: 'X-Request-Id',
    description: 'Id of this request in the log of the server',
    schema: { type: 'string' },
  },
  Challenge: {
    name: 'WWW-Authenticate',
    description: 'The login that the server accepts',
    schema: { type: 'string' },
  },
} as const;

type HeaderName = keyof typeof headers;

const limitHeaderNames: readonly HeaderName[] = [
  'RateLimitLimit',
  'RateLimitRemaining',
  'RateLimitReset',
];

/** Headers of every failure: limits count failures too, and any failure may specify a time for another attempt. */
const everyError: readonly HeaderName[] = ['RequestId', 'RetryAfter', ...limitHeaderNames];

interface FaultResponse {
  /** Name in the OpenAPI document. */
  readonly name: string;
  readonly about: string;
  readonly headers?: readonly HeaderName[];
}

/** Failures by status, as the OpenAPI document describes them. */
const faultResponses: Readonly<Record<number, FaultResponse>> = {
  400: {
    name: 'BadRequest',
    about: 'The request is malformed or cannot be fulfilled',
  },
  401: {
    name: 'Unauthorized',
    about: 'A login is required, or it is wrong',
    headers: ['Challenge'],
  },
  403: { name: 'Denied', about: 'The caller has no right to this' },
  404: { name: 'NotFound', about: 'A resource that the path or the body names does not exist' },
  408: { name: 'TooSlow', about: 'The body did not arrive in time' },
  409: { name: 'Conflict', about: 'A resource that the body names already exists, or is in use' },
  413: { name: 'TooLarge', about: 'The body is too large' },
  415: { name: 'UnsupportedMediaType', about: 'The body is not JSON' },
  429: {
    name: 'TooManyRequests',
    about: 'A limit is reached: repeat the request after the time in `Retry-After`',
  },
  500: {
    name: 'InternalError',
    about: 'An error of the server. The log has the details under the error id',
  },
  501: { name: 'NotProvided', about: 'This server does not support the request' },
  502: { name: 'UpstreamFailed', about: 'Another registry or a platform failed' },
  503: {
    name: 'Unavailable',
    about: 'The server cannot do this at the moment: repeat the request',
  },
  504: { name: 'UpstreamTimeout', about: 'Another registry or a platform did not answer in time' },
  507: { name: 'StorageFull', about: 'The disk of the server is full' },
};

/** Returns the statuses of the failures that follow from the declaration of a route, and of those that it lists. */
function faultStatuses(
  { faults = [], params = {}, query, body, limit, method }: Documented,
  ofAccess: readonly FaultKind[],
): number[] {
  const kinds: FaultKind[] = [...faults, ...ofAccess];
  if (query || body || Object.keys(params).length > 0) kinds.push('bad-request');
  if (body) kinds.push('too-slow', 'too-large', 'unsupported-media');
  // The server denies requests that a page of another origin sends through a browser.
  if (method !== 'get') kinds.push('denied');
  if (limit) kinds.push('too-many-requests');
  const statuses = new Set(kinds.map(kind => new Fault(kind, '').apiStatus));
  return [...statuses].sort((one, other) => one - other);
}
