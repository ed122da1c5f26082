import { z } from 'zod';
import type { FaultKind } from '../../foundation/fault.ts';
import type { Claim } from '../../platform/index.ts';

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
  /** Returns warnings about the body as received. Throws a `Fault` for fields that cannot be ignored. */
  readonly review?: (given: unknown) => readonly string[];
  /** Returns true for a body that also requires the right to build images. */
  isBuild?(body: z.output<B>): boolean;
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

/** The input of a call, as its schemas type it. */
export interface Input<
  Path extends string = string,
  P extends ParamSchemas = ParamSchemas,
  Q extends z.ZodType = z.ZodType,
  B extends z.ZodType = z.ZodType,
> {
  readonly params: ParamsOf<Path, P>;
  readonly query: z.output<Q>;
  readonly body: z.output<B>;
  /** Warnings about an accepted body. */
  readonly warnings: readonly string[];
}

/** What a route answers, and to whom. The router, the checks and the limit of the route follow from its declaration. */
export interface Declaration<
  Path extends string = string,
  P extends ParamSchemas = ParamSchemas,
  Q extends z.ZodObject = z.ZodObject,
  B extends z.ZodType = z.ZodType,
> {
  readonly method: Method;
  /** Path below the base of the API, with names in braces for its parameters. */
  readonly path: Path;
  /** Other paths of the same route. */
  readonly aliases?: readonly string[];
  /** The callers that the route accepts. Each kind of routes has its own list of values. */
  readonly access: string;
  /** Schemas of the path parameters. Default: strings. */
  readonly params?: P;
  readonly query?: Q;
  readonly body?: BodyDeclaration<B>;
  /** Returns the login in the input. Default: the login in the `Authorization` header. */
  claim?(input: Input<Path, P, Q, B>): Claim;
  /** The rate limit that each call counts for. */
  readonly limit?: 'requests';
}

/** What the OpenAPI document says of a route, beyond its {@link Declaration}. */
export interface Documentation {
  /** Name of the operation, unique in its API: generated clients use it as the name of a function. */
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly responses: Responses;
  /** Further failures, in addition to those that follow from the access, the input and the limit. */
  readonly faults?: readonly FaultKind[];
  readonly isDeprecated?: true;
}

export type Documented = Declaration & Documentation;

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

/** A whole number of at most 15 digits in a path. */
export const pathNumber = digits(15, z.int('must be a number'));

/** Returns a schema for a whole number in a query. */
export const queryNumber = (least: number, most: number, outside?: string) =>
  digits(9, z.int('expected a whole number').min(least, outside).max(most, outside));
