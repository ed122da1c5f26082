import { readFileSync } from 'node:fs';
import type { Ajv2020, ValidateFunction } from 'ajv/dist/2020.js';

/** A published document with what the check of responses reads of it, see `checked-responses.ts`. */
export interface Described {
  readonly document: Document;
  /** Returns the check of the schema at this JSON pointer. */
  validatorOf(pointer: string): Promise<ValidateFunction>;
}

export interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly responses: Readonly<Record<string, Response>> };
}

export interface Operation {
  readonly responses: Readonly<Record<string, Response>>;
  readonly 'x-aliases'?: readonly string[];
}

export interface Response {
  readonly $ref?: string;
  readonly content?: Readonly<Record<string, { readonly schema: object }>>;
  readonly headers?: Readonly<Record<string, object>>;
}

/** In a run of the tests, `response-check-bundle.ts` replaces this module with one whose checks are compiled. */
export async function describe(name: string): Promise<Described> {
  const document = documentOf(name);
  const known = new Map<string, ValidateFunction>();
  let made: Promise<Ajv2020> | undefined;
  return {
    document,
    async validatorOf(pointer) {
      made ??= ajvOf(document);
      const found = known.get(pointer) ?? (await made).compile({ $ref: `document${pointer}` });
      known.set(pointer, found);
      return found;
    },
  };
}

export function documentOf(name: string): Document {
  return JSON.parse(readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8'));
}

/** Returns the compiler for the schemas of a document, which has them by the name `document`. */
export async function ajvOf(document: Document, code: object = {}): Promise<Ajv2020> {
  const { Ajv2020 } = await import('ajv/dist/2020.js');
  const ajv = new Ajv2020({
    strict: false,
    code,
    // Another test checks the documents themselves. Here it would take a tenth of the time of a start.
    meta: false,
    validateSchema: false,
    formats: {
      date: /^\d{4}-\d\d-\d\d$/,
      'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/,
    },
  });
  ajv.addSchema({ $id: 'document', ...(closed(document) as object) });
  return ajv;
}

/** A published schema allows further fields, so that they can be added later; a response must not have other fields. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const inner = Object.fromEntries(Object.entries(value).map(([key, one]) => [key, closed(one)]));
  const isOpen = inner.type === 'object' && inner.additionalProperties === undefined;
  return isOpen ? { ...inner, additionalProperties: false } : inner;
}
