import { z } from 'zod';
import { errorAnswerSchema } from '../container/answer-schema.ts';

/** One entry point of an API. */
export interface Operation {
  readonly method: 'get' | 'post' | 'put' | 'delete';
  readonly path: string;
  readonly summary: string;
  readonly request?: z.ZodType | undefined;
  readonly answer?: z.ZodType | undefined;
  /** Media type of an answer that is not JSON. */
  readonly answerType?: string;
  /** 200 unless told. */
  readonly status?: 200 | 204 | 303;
  /** What each query parameter means. */
  readonly query?: Readonly<Record<string, string>>;
  /** Names of security schemes, of which one is enough. */
  readonly security?: readonly string[];
  readonly isDeprecated?: boolean;
}

export interface Api {
  readonly title: string;
  readonly version: string;
  readonly description: string;
  /** What comes before every path. */
  readonly base?: string;
  readonly operations: readonly Operation[];
  readonly securitySchemes: Readonly<Record<string, object>>;
}

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

/** The description of a JSON API, made from the schemas that validate its requests. Source: OpenAPI 3.1. */
export function describeApi(api: Api): OpenApi {
  const { title, version, description, base, operations, securitySchemes } = api;
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
    info: { title, version, description },
    ...(base === undefined ? {} : { servers: [{ url: base }] }),
    paths,
    components: { schemas, securitySchemes },
  };
}

function describe(operation: Operation, reference: (schema: z.ZodType) => object): ApiOperation {
  const { path, request, answer, answerType, query = {}, security, status = 200 } = operation;
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
    ...(security ? { security: security.map(name => ({ [name]: [] })) } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(request ? { requestBody: { required: true, content: json(request) } } : {}),
    responses: {
      [status]: { description: 'Done', ...(content ? { content } : {}) },
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
