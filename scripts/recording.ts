/**
 * Records the first minutes with Sluice: `npm run recording`. Real commands run on a terminal against a real server, which uses a
 * registry and packages made here. Writes docs/pictures/first-minutes.cast for asciinema, and a moving picture of it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { movingPicture, type Output } from './recording/moving-picture.ts';
import { startShownServer } from './shown-world.ts';

const columns = 100;
const rows = 26;
const title = 'The first minutes with Sluice';
const folder = fileURLToPath(new URL('../docs/pictures/', import.meta.url));
const program = fileURLToPath(new URL('../bin/sluice.js', import.meta.url));
const port = 9090;

const commands = [
  '# Find packages, and get them as an image. Nothing has to be installed, and no builder runs.',
  'sluice search sam',
  'sluice build --conda samtools=1.21 --conda bwa --await',
  '# A mistake has an answer.',
  'sluice build --conda samtols',
  '# Change an image that exists: its layers stay where they are.',
  'sluice request ubuntu:24.04 --env STUDY=7 --entrypoint bash',
  '# What became of it?',
  'sluice builds',
];
const typing = 0.035;
const reading = 1.6;

await using home = await makeTempDir('recording');
await using _shown = await startShownServer(
  { access: { requests: 'open', builds: 'open', pulls: 'open' } },
  port,
);
const outputs: Output[] = [];
let clock = 0.5;
for (const command of commands) {
  note('\x1b[1m$\x1b[22m ');
  for (const word of command.split(/(?<= )/)) {
    clock += word.length * typing;
    note(command.startsWith('#') ? `\x1b[2m${word}\x1b[22m` : word);
  }
  clock += 0.3;
  note('\r\n');
  if (!command.startsWith('#')) {
    await record(command);
    clock += reading;
    note('\r\n');
  }
}
const header = { version: 2, width: columns, height: rows, title, env: { TERM: 'xterm-256color' } };
const lines = outputs.map(([at, text]) => JSON.stringify([at, 'o', text]));
await writeFile(
  `${folder}first-minutes.cast`,
  `${[JSON.stringify(header), ...lines].join('\n')}\n`,
);
await writeFile(
  `${folder}first-minutes.svg`,
  movingPicture(outputs, { columns, rows, title: `${title}: packages become an image` }),
);
console.log(`${folder}first-minutes.cast\n${folder}first-minutes.svg`);

function note(text: string): void {
  outputs.push([Number(clock.toFixed(3)), text]);
}

/** Runs a command on a terminal, and notes what it writes and when. */
async function record(command: string): Promise<void> {
  const [, ...words] = command.split(' ');
  const quoted = [process.execPath, program, ...words].map(word => `'${word}'`).join(' ');
  const line = `stty cols ${columns} rows ${rows}; ${quoted}`;
  const begin = performance.now();
  const before = clock;
  const child = spawn('script', ['-qfec', line, '/dev/null'], {
    env: { PATH: process.env.PATH, HOME: home.join('.'), TERM: 'xterm-256color', COLORTERM: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    clock = before + (performance.now() - begin) / 1000;
    note(text);
  });
  await once(child, 'close');
}
