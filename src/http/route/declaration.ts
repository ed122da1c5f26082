import { z } from 'zod';
import type { FaultKind } from '../../foundation/fault.ts';

export type Method = 'get' | 'post' | 'put' | 'delete';

/** The response with one status. */
export interface ResponseDeclaration {
  readonly about: string;
  /** Schema of a JSON response. */
  readonly schema?: z.ZodType;
  /** Media types of a response that is not JSON; the first one is the default. */
  readonly types?: readonly string[];
  /** Descriptions of headers, by header name. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly example?: unknown;
}

export type Responses = Readonly<Record<number, ResponseDeclaration>>;

export interface BodyDeclaration<B extends z.ZodType = z.ZodType> {
  readonly schema: B;
  readonly example?: unknown;
}

/** The names of the parameters in a path: `token` for `/container-token/{token}`. */
export type NamesIn<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | NamesIn<Rest>
  : never;

export type ParamSchemas = Readonly<Record<string, z.ZodType>>;

/** The values of the path parameters. Default: strings; a schema can specify another type. */
export type ParamsOf<Path extends string, P extends ParamSchemas> = {
  readonly [Name in NamesIn<Path>]: Name extends keyof P ? z.output<P[Name]> : string;
};

/**
 * The public properties of a route. The router, the OpenAPI document, the input checks, the rate limit and the errors
 * of the route are all derived from this declaration.
 */
export interface Declaration<
  Path extends string = string,
  P extends ParamSchemas = ParamSchemas,
  Q extends z.ZodObject = z.ZodObject,
  B extends z.ZodType = z.ZodType,
> {
  /** Name of the operation, unique in its API: generated clients use it as the name of a function. */
  readonly id: string;
  readonly method: Method;
  /** Path below the base of the API, with names in braces for its parameters. */
  readonly path: Path;
  /** Other paths of the same route. */
  readonly aliases?: readonly string[];
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  /** The callers that the route accepts. Each API has its own list of values. */
  readonly access: string;
  /** Schemas of the path parameters. Default: strings. */
  readonly params?: P;
  readonly query?: Q;
  readonly body?: BodyDeclaration<B>;
  readonly responses: Responses;
  /** Further failures, in addition to those that follow from the access, the input and the limit. */
  readonly faults?: readonly FaultKind[];
  /** The rate limit that each call counts for. */
  readonly limit?: 'requests';
  readonly isDeprecated?: true;
}

/** Returns the names of the parameters in a path. */
export function namesIn(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}

/** Returns the responses of a route with a single successful response, in JSON. */
export function ok(schema: z.ZodType, about = 'Done', example?: unknown): Responses {
  return { 200: { about, schema, ...(example === undefined ? {} : { example }) } };
}

/** The responses of a route that succeeds without a body. */
export const noContent: Responses = { 204: { about: 'Done' } };

/** Returns a schema for a whole number that arrives as text. The document describes it as a number. */
export function digits(most: number, schema: z.ZodInt) {
  const pattern = new RegExp(`^\\d{1,${most}}$`);
  return z.preprocess(
    value => (typeof value === 'string' && pattern.test(value) ? Number(value) : value),
    schema,
  );
}

/** A number in a path. */
export const pathNumber = digits(15, z.int('must be a number'));

/** Returns a schema for a whole number in a query. */
export const queryNumber = (least: number, most: number, outside?: string) =>
  digits(9, z.int('expected a whole number').min(least, outside).max(most, outside));
