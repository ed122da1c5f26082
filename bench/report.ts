import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';

/** One figure: its ratio to the peer, and the target. */
export interface Row {
  readonly what: string;
  readonly figure: string;
  readonly aim: string;
  /** Medians behind the figure, for orientation: they hold for one machine on one day only. */
  readonly medians: string;
}

/** A part of the bench with its letter and its rows. */
export interface Part {
  readonly letter: string;
  readonly title: string;
  readonly rows: readonly Row[];
}

const file = new URL('results.md', import.meta.url);

/** Prints a part and writes it into bench/results.md, in place of the previous part with its letter. */
export function report(part: Part): void {
  const text = section(part);
  console.log(text);
  const kept = readSections();
  kept.set(part.letter, text);
  const sorted = [...kept].sort(([one], [other]) => one.localeCompare(other));
  writeFileSync(file, [head(), ...sorted.map(([, section]) => section)].join('\n'));
}

function readSections(): Map<string, string> {
  let text = '';
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    // The first run.
  }
  const sections = text.split(/^(?=## )/m).slice(1);
  return new Map(sections.map(section => [section.charAt(4), `${section.trimEnd()}\n`]));
}

function section({ letter, title, rows }: Part): string {
  const lines = rows.map(row => `| ${row.what} | ${row.figure} | ${row.aim} | ${row.medians} |`);
  return [
    `## (${letter}) ${title}`,
    '',
    '| | figure | aim | medians |',
    '|---|---|---|---|',
    ...lines,
    '',
  ].join('\n');
}

function head(): string {
  const [cpu] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  return `# Figures

Made by \`npm run bench\` (\`npm run bench -- a\` for one part): medians of interleaved rounds, in which
Sluice and its peers take turns. Ratios are of one machine and may be compared; the medians behind them
are for orientation.

Machine: ${cpus().length} cores (${cpu?.model ?? 'unknown'}), ${memory} GiB, Linux ${release()}, Node ${process.versions.node}. Load,
peers, upstream and Sluice share it.
`;
}
