import type { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import { withoutAliases } from '../api/aliases.ts';
import { type Declaration, namesIn } from './declaration.ts';
import { tooLongIn } from './list-lengths.ts';

// Characters shown of a name that a client chose.
const shownName = 80;
// Characters shown of a text in a path.
const shownText = 40;

/** Returns the body as the schema types it. Throws a {@link Fault} (400) that names the invalid field and its fault. */
export function parseBody<S extends z.ZodType>(schema: S, body: unknown): z.output<S> {
  const given = withoutAliases(body);
  const tooLong = tooLongIn(schema, given);
  if (tooLong) {
    const { path, count, most } = tooLong;
    throw malformed(path, `has ${count} entries, at most ${most} are allowed`);
  }
  return parse(schema, given);
}

/** Returns the query parameters as their schema types them. Throws a {@link Fault} (400) for an invalid parameter. */
export function parseQuery(
  { query }: Pick<Declaration, 'query'>,
  given: Readonly<Record<string, string>>,
): unknown {
  return query ? parse(query, given) : {};
}

/** Returns the path parameters, each as its schema types it. Throws a {@link Fault} (400) for an invalid parameter. */
export function parseParams(
  { path, params = {} }: Pick<Declaration, 'path' | 'params'>,
  given: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const entries = namesIn(path).map(name => {
    const text = given[name] ?? '';
    const result = params[name]?.safeParse(text);
    if (!result) return [name, text] as const;
    if (result.success) return [name, result.data] as const;
    const message = result.error.issues[0]?.message ?? 'is malformed';
    throw new Fault('bad-request', `'${text.slice(0, shownText)}' in the path ${message}`, {
      phase: 'request',
    });
  });
  return Object.fromEntries(entries);
}

function parse<S extends z.ZodType>(schema: S, given: unknown): z.output<S> {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw malformed(issue?.path ?? [], inWords(issue?.message));
}

function malformed(path: readonly PropertyKey[], what: string): Fault {
  const field = path
    .map(part => (typeof part === 'number' ? `[${part}]` : `.${String(part).slice(0, shownName)}`))
    .join('')
    .slice(1);
  const subject = field === '' ? 'The body' : `'${field}'`;
  const joint = /^(?:is|has|must) /.test(what) ? ' ' : ': ';
  return new Fault('bad-request', `${subject}${joint}${what}`, { phase: 'request' });
}

/** Returns a message of zod as the rest of a sentence on the field. */
function inWords(message = 'is malformed'): string {
  if (message.endsWith('received undefined')) return 'is required';
  return message.replace(/^Invalid (?:input|option): /, '');
}
