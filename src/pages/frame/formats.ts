import { type Html, html } from './html.ts';

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
  for (const [unit, length, most] of units) {
    const value = ms / length;
    if (value >= most) continue;
    return `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)} ${unit}`;
  }
  return `${Math.round(ms / 86_400_000)} d`;
}

// The name of a unit, its length in ms, and the value from which on the next one is used.
const units = [
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
  return text.replace(hidden, '\ufffd');
}

// Source: Unicode Bidirectional Algorithm, explicit directional formatting characters.
const hidden = /[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]|(?![\t\n])\p{Cc}/gu;
