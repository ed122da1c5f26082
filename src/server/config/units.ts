import { z } from 'zod';
import { OciSyntaxError, parseReference } from '../../oci/naming.ts';
import { parseDuration, scaled } from './duration.ts';

const sizeFactors: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KIB: 2 ** 10,
  MIB: 2 ** 20,
  GIB: 2 ** 30,
  TIB: 2 ** 40,
};
const rateSeconds: Readonly<Record<string, number>> = {
  second: 1,
  minute: 60,
  hour: 3600,
  day: 86_400,
};

/**
 * A setting that takes the word `off` (or `on`) takes `false` (or `true`) as well. Helm reads values as YAML 1.1, in which a
 * bare `off` is a boolean.
 */
export function withWords<T extends z.ZodType>(schema: T) {
  return z.preprocess(wordOf, schema);
}

function wordOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(wordOf);
  return typeof value === 'boolean' ? (value ? 'on' : 'off') : value;
}

/** Bytes, written as a number or as `10 MiB`, `1.5 GB`. */
export const size = z.union([z.number(), z.string()]).transform((value, context) =>
  expected(
    scaled(value, sizeFactors, unit => unit.toUpperCase()),
    'a size such as 10 MiB',
    context,
  ),
);

/** Bytes like {@link size}; `off` for no limit. */
export const limit = withWords(z.union([z.literal('off').transform(() => undefined), size]));

/** A count; `off` for no limit. */
export const countLimit = withWords(
  z.union([
    z.literal('off').transform(() => undefined),
    z.coerce
      .number('expected a whole number, or off')
      .int('expected a whole number, or off')
      .positive(),
  ]),
);

/** Milliseconds, written as `30s`, `500ms`, `36h`. */
export const duration = z
  .string()
  .transform((value, context) =>
    expected(parseDuration(value), 'a time such as 30s or 36h', context),
  );

// A Node timer with a longer time fires at once.
const longestTimerMs = 2 ** 31 - 1;

/** Milliseconds for a timer: more than 0 and less than 24 days. */
export const timer = duration.refine(
  ms => ms > 0 && ms <= longestTimerMs,
  'expected a time between 1ms and 24d',
);

/** Events per time, written as `250/hour`; `0` for none at all, `off` for no limit. */
export const rate = withWords(
  z.union([z.literal(0), z.string()]).transform((value, context) => {
    if (value === 'off') return undefined;
    if (value === 0 || value === '0') return { count: 0, seconds: rateSeconds.day as number };
    const match = /^(\d{1,9})\s*\/\s*(second|minute|hour|day)$/.exec(value);
    const seconds = rateSeconds[match?.[2] ?? ''];
    if (seconds !== undefined) return { count: Number(match?.[1]), seconds };
    context.addIssue(
      'expected a rate such as 250/hour (second, minute, hour, day), 0 for none, or off for no limit',
    );
    return z.NEVER;
  }),
);

/** A rate like {@link rate}, of at least one event. */
export const positiveRate = rate.refine(
  value => value === undefined || value.count > 0,
  'expected at least one, such as 30/minute, or off for no limit',
);

/** A list; in an environment variable its entries are separated by commas. */
export const list = z.preprocess(
  value => (typeof value === 'string' ? splitList(value) : value),
  z.array(z.string()),
);

export function splitList(text: string): string[] {
  return text
    .split(',')
    .map(entry => entry.trim())
    .filter(entry => entry !== '');
}

function expected(value: number | undefined, what: string, context: z.RefinementCtx): number {
  if (value !== undefined) return value;
  context.addIssue(`expected ${what}`);
  return z.NEVER;
}

/** `true` or `false`, also as text. */
export const flag = z.preprocess(
  value => (value === 'true' ? true : value === 'false' ? false : value),
  z.boolean('expected true or false'),
);

/** A whole number, 0 or more. */
export const count = z.coerce
  .number('expected a whole number')
  .int('expected a whole number')
  .nonnegative('expected a whole number');

/** The host of a registry, with its port. */
export const registryHost = z
  .string()
  .refine(
    text => /^[A-Za-z0-9.:[\]-]+$/.test(text) && URL.canParse(`https://${text}`),
    'expected the host of a registry, such as registry.example.com:5000',
  );

/** Returns true for a text that {@link parseReference} reads. */
export function isImageName(text: string): boolean {
  try {
    parseReference(text);
    return true;
  } catch (error) {
    if (error instanceof OciSyntaxError) return false;
    throw error;
  }
}
