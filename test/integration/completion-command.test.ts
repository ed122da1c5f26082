/** `sluice completion`: the scripts complete in real shells. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { openTerminal } from '../world/terminal.ts';
import { requireCommand } from '../world/tools.ts';
import { assertSuccess } from './served.ts';

const lookMs = 20;
const typingMs = 60_000;

/** Returns all completions that a shell offers for the text before the cursor. */
const offers: readonly (readonly [line: string, offered: readonly string[]])[] = [
  ['sluice bui', ['build', 'builds']],
  ['sluice help cre', ['credentials']],
  ['sluice user ', ['add', 'list', 'remove']],
  ['sluice user add --ser', ['--server']],
  ['sluice build --f', ['--file', '--format', '--freeze']],
  ['sluice build --format ', ['docker', 'sif']],
  ['sluice inspect --platform linux/a', ['linux/amd64', 'linux/arm64']],
  ['sluice token list --user ', []],
];

suite('completion', { concurrency: 1 }, () => {
  let directory: TempDir;
  before(async () => {
    directory = await makeTempDir('completion');
    await writeFile(directory.join('recipe.dockerfile'), 'FROM scratch\n');
    for (const shell of ['bash', 'zsh', 'fish']) {
      const script = assertSuccess(await sluiceCommand(['completion', shell]));
      await writeFile(directory.join(shell), script);
    }
  });
  after(() => directory?.remove());

  test('bash offers commands, actions, options and values', () => {
    const program = `compopt() { :; }
source "$1"
COMP_WORDS=($2); [[ $2 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`;
    for (const [line, offered] of offers) {
      const args = ['--norc', '-c', program, 'bash', directory.join('bash'), line];
      assert.deepEqual(wordsIn(execFileSync(requireCommand('bash'), args)), offered, line);
    }
  });

  test('fish offers commands, actions, options and values', () => {
    const program = 'source $argv[1]; complete -C $argv[2]';
    for (const [line, offered] of offers) {
      const args = ['--no-config', '-c', program, directory.join('fish'), line];
      const found = wordsIn(execFileSync(requireCommand('fish'), args));
      assert.deepEqual(found, offered, line);
    }
  });

  for (const [shell, args, start] of [
    ['bash', ['--norc', '--noprofile', '-i'], ''],
    ['zsh', ['-f', '-i'], 'autoload -U compinit; compinit -u -D; '],
  ] as const) {
    test(`${shell} completes a typed line`, { timeout: typingMs }, async ({ signal }) => {
      const terminal = openTerminal([requireCommand(shell), ...args], { PS1: '> ' });
      const typed = async (keys: string, shown: RegExp) => {
        terminal.type(keys);
        const plain = () => stripVTControlCharacters(terminal.output()).replaceAll('\b', '');
        while (!shown.test(plain())) await sleep(lookMs, undefined, { signal });
      };
      await typed(
        `${start}source ${directory.join(shell)}; cd ${directory.path}; echo rea''dy\n`,
        /ready/,
      );
      await typed('sluice inspe\t', /sluice inspect/);
      await typed('\x15sluice build -f rec\t', /-f recipe\.dockerfile/);
      await typed('--forma\t', /--format/);
      await typed('si\t', /sif/);
      await typed('\x15sluice user rem\t', /user remove/);
      terminal.type('\x15exit\n');
      await terminal.exitCode;
    });
  }
});

function wordsIn(output: Buffer): string[] {
  return output
    .toString()
    .split('\n')
    .map(line => line.split('\t')[0] ?? '')
    .filter(word => word !== '')
    .sort();
}
