import { html as escapeHtml } from 'hono/html';

/** A piece of HTML in which all texts are escaped. Only {@link html} makes one. */
export interface Html {
  readonly isEscaped: true;
  toString(): string;
}

/** What may stand in a template: texts are escaped, arrays are joined, `undefined` and `false` leave nothing. */
type Part = string | number | boolean | null | undefined | Html | readonly Part[];

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

// Control characters, characters that change the direction of text, and some without width.
const unseenCharacters = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Returns a text from outside with its invisible characters as `\u{202e}`, so that what a reader sees is what is there.
 *
 * @param most characters that are shown
 */
export function visibleText(text: string, most = 400): string {
  const start = text.slice(0, most);
  const cut = start.length < text.length ? '…' : '';
  return (
    start
      .replace(unseenCharacters, one => `\\u{${one.codePointAt(0)?.toString(16)}}`)
      .toWellFormed() + cut
  );
}

/** Returns a text of several lines, each as {@link visibleText}. */
export function visibleLines(text: string, most = 4000): string {
  return text
    .slice(0, most)
    .split('\n')
    .map(line => visibleText(line, most))
    .join('\n');
}

/** Returns a text from outside as an element, isolated from the direction of the text around it. */
export function shownText(text: string, most?: number): Html {
  return html`<bdi>${visibleText(text, most)}</bdi>`;
}

/** Returns a size as people read it: `1.4 MB` for 1,400,000 bytes. */
export function byteText(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const units = ['kB', 'MB', 'GB', 'TB', 'PB'];
  const power = Math.min(units.length, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** power;
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[power - 1]}`;
}

/** Returns a duration as people read it: `350 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const steps = [
    [86_400, 'd', 3600, 'h'],
    [3600, 'h', 60, 'min'],
    [60, 'min', 1, 's'],
  ] as const;
  for (const [large, largeUnit, small, smallUnit] of steps) {
    if (seconds < large) continue;
    const rest = Math.floor((seconds % large) / small);
    const whole = `${Math.floor(seconds / large)} ${largeUnit}`;
    return rest === 0 ? whole : `${whole} ${rest} ${smallUnit}`;
  }
  return `${seconds} s`;
}

/** Returns a round duration in at most six characters, such as `150 s`, `25 min` or `4.2 h`. */
export function shortDurationText(ms: number): string {
  if (ms === 0) return '0';
  for (const [unit, length, most] of timeUnits) {
    const value = ms / length;
    if (value >= most) continue;
    return `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)} ${unit}`;
  }
  return `${Math.round(ms / 86_400_000)} d`;
}

// The name of a unit, its length in ms, and the value from which on the next one is used.
const timeUnits = [
  ['ms', 1, 1000],
  ['s', 1000, 600],
  ['min', 60_000, 100],
  ['h', 3_600_000, 100],
] as const;

/** Returns a moment, in ms since the epoch, as an element that scripts show in the reader's own time zone. */
export function timeElement(at: number): Html {
  const iso = new Date(at).toISOString();
  return html`<time datetime="${iso}">${iso.slice(0, 16).replace('T', ' ')} UTC</time>`;
}

/** Returns a day of UTC, such as `2026-11-24`, as an element that scripts show in the reader's own form. */
export function dayElement(day: string): Html {
  return html`<time datetime="${day}">${day}</time>`;
}

/** Returns the first characters of a digest, enough to recognise it. */
export function shortDigest(digest: string): string {
  const [algorithm = '', hex = ''] = digest.split(':');
  return `${algorithm}:${hex.slice(0, 12)}`;
}

/** Returns a number with separators between thousands. */
export function countText(count: number): string {
  return count.toLocaleString('en-US');
}

/**
 * Returns a text from outside, such as a line of a log, in which tabs stay and nothing is hidden: characters that
 * control a terminal or turn the direction of writing become `�`, since they can make a text look like another one.
 */
export function withoutHidden(text: string): string {
  return text.replace(hiddenCharacters, '\ufffd');
}

// Source: Unicode Bidirectional Algorithm, explicit directional formatting characters.
const hiddenCharacters = /[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]|(?![\t\n])\p{Cc}/gu;

/** The bytes that the lists of a page may still take: a foreign image can have any number of texts of any length. */
export interface PageRoom {
  /** Renders entries in their order as long as there is room. Returns them and the number of those left out. */
  list<T>(
    entries: readonly T[],
    render: (entry: T) => Html,
  ): { readonly shown: readonly Html[]; readonly left: number };
}

const mostEntries = 500;
const shortText = 240;
const longestText = 4000;

/** Creates the room of one page. The frame of a page and its headings take some kilobytes more. */
export function pageRoom(bytes = 80_000): PageRoom {
  let free = bytes;
  return {
    list(entries, render) {
      const shown: Html[] = [];
      for (const entry of entries.slice(0, mostEntries)) {
        const made = render(entry);
        free -= Buffer.byteLength(made.toString());
        if (free < 0) break;
        shown.push(made);
      }
      return { shown, left: entries.length - shown.length };
    },
  };
}

/** Returns a text from outside: a long one as its beginning, below which the rest unfolds. */
export function foldedText(text: string): Html {
  if (text.length <= shortText) return html`<code>${shownText(text)}</code>`;
  return html`<details class="fold"><summary><code>${shownText(text.slice(0, shortText))}</code></summary><code>${shownText(text.slice(shortText), longestText)}</code></details>`;
}
