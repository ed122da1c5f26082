import { html as escapeHtml } from 'hono/html';

/** A piece of HTML in which all texts are escaped. Only {@link html} makes one. */
export interface Html {
  readonly isEscaped: true;
  toString(): string;
}

/** What may stand in a template: texts are escaped, arrays are joined, `undefined` and `false` leave nothing. */
export type Part = string | number | boolean | null | undefined | Html | readonly Part[];

/**
 * Creates HTML from a template. Every text in it is escaped, for content and for attributes in quotes. Attributes that
 * run something, such as `onclick` or `href` with an address from outside, are not safe with any text: see
 * {@link safeAddress}.
 */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  const made = escapeHtml(strings, ...parts);
  if (made instanceof Promise) throw new TypeError('A part of a template must not be a promise');
  return made as unknown as Html;
}

/** Returns an address from outside for a link; undefined unless it is an `http` or `https` address. */
export function safeAddress(text: string): string | undefined {
  const url = URL.parse(text);
  return url && ['http:', 'https:'].includes(url.protocol) ? url.href : undefined;
}
