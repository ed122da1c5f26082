import { styleText } from 'node:util';
import type { LogDestination } from '../../foundation/telemetry/index.ts';
import { terminalLine } from '../../foundation/text.ts';
import { readVersion } from '../../foundation/version.ts';

interface Line {
  readonly level: string;
  readonly time: string;
  readonly msg?: string;
  readonly err?: { readonly message?: string; readonly causes?: string[]; readonly stack?: string };
  readonly [member: string]: unknown;
}

type Colour = Parameters<typeof styleText>[0];

const colours: Readonly<Record<string, Colour>> = { warn: 'yellow', error: 'red', fatal: 'red' };

/** Writes log lines as text for a person who looks at a terminal, each at once. */
export function terminalLog(
  destination: LogDestination,
  hasColours: boolean,
): Pick<LogDestination, 'write'> {
  const style = (colour: Colour, text: string) =>
    hasColours ? styleText(colour, text, { validateStream: false }) : text;
  return {
    write(json) {
      const line = JSON.parse(json) as Line;
      const sentence = sentences[line.msg ?? '']?.(line);
      destination.write(`${sentence ? style('bold', sentence) : textOf(line, style)}\n`);
      destination.flush();
    },
  };
}

/** What a person needs at the start, in sentences. */
const sentences: Readonly<Record<string, (line: Line) => string>> = {
  ready: ({ url, leader, data }) =>
    terminalLine(
      `Sluice ${readVersion().version} is ready: ${url}${leader === undefined ? '' : ` (leader: ${leader})`}. State: ${data}. Ctrl-C stops it.`,
    ),
  'access rules of this server': ({ access }) => {
    const rules = Object.entries(access as Readonly<Record<string, string>>);
    const who = { open: 'everybody who reaches it', login: 'callers with a login', off: 'nobody' };
    const parts = Object.entries(who).flatMap(([rule, people]) => {
      const what = rules.filter(([, value]) => value === rule).map(([name]) => name);
      return what.length === 0 ? [] : [`${what.join(', ')} for ${people}`];
    });
    return terminalLine(`Allows ${parts.join('; ')}.`);
  },
};

function textOf(line: Line, style: (colour: Colour, text: string) => string): string {
  const { level, time, msg = '', err, ...more } = line;
  const clock = style('dim', new Date(time).toTimeString().slice(0, 8));
  const colour = colours[level];
  const mark = colour === undefined ? '' : `${style(colour, level)}: `;
  const { method, path, status, ms, client, requestId, ...rest } = more;
  const isRequest = msg === 'request';
  const what = isRequest ? `${method} ${path} ${status}` : msg;
  const members = isRequest ? { ms, client, ...rest, requestId } : more;
  const reasons = err ? [err.message ?? '', ...(err.causes ?? [])] : [];
  let words = what;
  // Many faults contain the message of their cause.
  for (const reason of reasons) {
    const lines = reason.split('\n').map(line => line.trim());
    const text = lines.filter(line => line !== '').join('; ');
    if (!words.includes(text)) words += `: ${text}`;
  }
  const facts = Object.entries(members)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${factOf(value)}`);
  const first = [
    `${clock} ${mark}${terminalLine(words)}`,
    style('dim', terminalLine(facts.join(' '))),
  ];
  // Only defects have a stack.
  const stack = err?.stack === undefined ? [] : err.stack.split('\n').slice(1).map(terminalLine);
  return [first.join('  ').trimEnd(), ...stack].join('\n');
}

function factOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
