import type { ParameterizedContext } from 'koa';
import type { z } from 'zod';
import { usesAliases } from '../api/aliases.ts';
import type { RequestState } from '../request-state.ts';
import { parseBody } from '../route/parse-input.ts';
import { readJsonBody } from './json-body.ts';

/**
 * Reads the body of a request. Returns it as received and as typed by a schema. Records which names the client uses
 * for its fields. Throws as {@link readJsonBody} and {@link parseBody}.
 */
export async function readRequest<S extends z.ZodType>(
  { req, state }: Pick<ParameterizedContext<RequestState>, 'req' | 'state'>,
  schema: S,
  maxBytes: number,
): Promise<{ readonly value: z.output<S>; readonly body: unknown }> {
  const body = await readJsonBody(req, maxBytes);
  state.usesAliases = usesAliases(body);
  return { value: parseBody(schema, body), body };
}
