import { z } from 'zod';
import {
  buildDetailsSchema,
  buildStatusSchema,
  containerAnswerSchema,
  containerDetailsSchema,
  containerStatusSchema,
  errorAnswerSchema,
  inspectAnswerSchema,
  legacyAnswerSchema,
  metricAnswerSchema,
  serviceInfoSchema,
} from './answer-schema.ts';
import { containerRequestSchema, inspectRequestSchema } from './schema.ts';

interface Operation {
  readonly method: 'get' | 'post' | 'delete';
  readonly path: string;
  readonly summary: string;
  readonly request?: z.ZodType;
  readonly answer?: z.ZodType;
  /** Media type of an answer that is not JSON. */
  readonly answerType?: string;
  /** What each query parameter means. */
  readonly query?: Readonly<Record<string, string>>;
  readonly isProtected?: boolean;
  readonly isDeprecated?: boolean;
}

const metricQuery = { date: 'Day, yyyy-mm-dd (UTC)', org: 'Domain of an organisation' };

const operations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1alpha2/container',
    summary: 'Request a container',
    request: containerRequestSchema,
    answer: containerAnswerSchema,
  },
  {
    method: 'get',
    path: '/v1alpha2/container/{token}',
    summary: 'Details of a container request',
    answer: containerDetailsSchema,
  },
  {
    method: 'get',
    path: '/v1alpha2/container/{token}/status',
    summary: 'State of a container request',
    answer: containerStatusSchema,
  },
  {
    method: 'post',
    path: '/container-token',
    summary: 'Request a container; superseded by /v1alpha2/container',
    request: containerRequestSchema,
    answer: legacyAnswerSchema,
    isDeprecated: true,
  },
  {
    method: 'get',
    path: '/container-token/{token}',
    summary: 'Details of a container request',
    answer: containerDetailsSchema,
  },
  {
    method: 'delete',
    path: '/container-token/{token}',
    summary: 'End a container request now',
    isProtected: true,
  },
  {
    method: 'post',
    path: '/v1alpha1/inspect',
    summary: 'Metadata of an image',
    request: inspectRequestSchema,
    answer: inspectAnswerSchema,
    query: { platform: 'linux/amd64 (the default), linux/arm64, or all for the whole index' },
  },
  {
    method: 'get',
    path: '/v1alpha1/builds/{buildId}',
    summary: 'What is built, where to, and how it stands',
    answer: buildDetailsSchema,
  },
  {
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/status',
    summary: 'State of a build',
    answer: buildStatusSchema,
  },
  {
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/logs',
    summary: 'Log of a build',
    answerType: 'text/plain',
    query: {
      follow:
        'true: until the build is over, as it is written; as events where text/event-stream is accepted',
    },
  },
  {
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/condalock',
    summary: 'Lock file of the packages that were installed',
    answerType: 'text/plain',
  },
  {
    method: 'delete',
    path: '/v1alpha1/builds/{buildId}',
    summary: 'Cancel a build',
    isProtected: true,
  },
  ...(['builds', 'pulls', 'mounted/pulls'] as const).map(
    (metric): Operation => ({
      method: 'get',
      path: `/v1alpha2/metrics/${metric}`,
      summary: `Usage: ${metric}`,
      answer: metricAnswerSchema,
      query: metricQuery,
      isProtected: true,
    }),
  ),
  {
    method: 'get',
    path: '/service-info',
    summary: 'Version and commit',
    answer: serviceInfoSchema,
  },
  { method: 'get', path: '/healthz', summary: 'The process is alive' },
  { method: 'get', path: '/readyz', summary: 'Requests can be served' },
  {
    method: 'get',
    path: '/metrics',
    summary: 'Metrics in the format of Prometheus',
    answerType: 'text/plain',
  },
];

export interface OpenApi {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, ApiOperation>>>>;
  readonly components: object;
}

export interface ApiOperation {
  readonly summary: string;
  readonly [member: string]: unknown;
}

/** The description of the JSON API, made from the schemas that validate its requests. Source: OpenAPI 3.1. */
export function createOpenApi(version: string): OpenApi {
  const schemas: Record<string, unknown> = {};
  const reference = (schema: z.ZodType) => {
    const name = String(schema.meta()?.title);
    schemas[name] ??= jsonSchema(schema);
    return { $ref: `#/components/schemas/${name}` };
  };
  const paths: Record<string, Record<string, ApiOperation>> = {};
  for (const operation of operations) {
    const path = paths[operation.path] ?? {};
    paths[operation.path] = path;
    path[operation.method] = describe(operation, reference);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice',
      version,
      description:
        'Container requests and image metadata. The names that are answered are pulled by the OCI distribution API below /v2/.',
    },
    paths,
    components: {
      schemas,
      securitySchemes: { account: { type: 'http', scheme: 'basic' } },
    },
  };
}

function describe(operation: Operation, reference: (schema: z.ZodType) => object): ApiOperation {
  const { path, request, answer, answerType, query = {} } = operation;
  const json = (schema: z.ZodType) => ({ 'application/json': { schema: reference(schema) } });
  const content = answer ? json(answer) : answerType ? { [answerType]: {} } : undefined;
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const inQuery = Object.entries(query).map(([name, description]) => ({
    name,
    in: 'query',
    description,
    schema: { type: 'string' },
  }));
  const parameters = [...inPath, ...inQuery];
  return {
    summary: operation.summary,
    ...(operation.isDeprecated ? { deprecated: true } : {}),
    ...(operation.isProtected ? { security: [{ account: [] }] } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(request ? { requestBody: { required: true, content: json(request) } } : {}),
    responses: {
      200: { description: 'Done', ...(content ? { content } : {}) },
      default: { description: 'What went wrong', content: json(errorAnswerSchema) },
    },
  };
}

function jsonSchema(schema: z.ZodType): object {
  const { $schema, title, ...rest } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
  });
  return rest;
}
