import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { environmentScript } from '../../src/images/sif/runtime/environment.ts';
import { ociRunscript } from '../../src/images/sif/runtime/runtime-files.ts';
import { requireBusybox, requireCommand } from '../world/tools.ts';
import { nastyTexts } from './nasty.ts';

// What may be /bin/sh in an image, which old clients run the scripts with.
const shells: Readonly<Record<string, string>> = {
  dash: requireCommand('dash'),
  bash: requireCommand('bash'),
  busybox: requireBusybox('amd64'),
};
const { dash = '' } = shells;
const path = process.env.PATH ?? '';
const show = ['printf', '<%s>\\n'];

interface Call {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs a script with the shell as /bin/sh. */
function run(shell: string, script: string, { args = [], env = {} }: Call = {}): string {
  const { status, stdout, stderr } = spawnSync(shell, ['-c', script, 'sh', ...args], {
    argv0: 'sh',
    env: { PATH: path, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

function shown(texts: readonly string[]): string {
  return texts.map(text => `<${text}>\n`).join('');
}

const words = fc.array(
  fc.oneof(
    fc.constantFrom(...nastyTexts),
    fc.string({ unit: fc.constantFrom(...'\\\'"`$!*~#;&|<>(){}[]%= \t\r\nabé日😀') }),
    fc.string({ unit: 'grapheme' }).map(text => text.replaceAll('\0', '')),
  ),
  { maxLength: 8 },
);

for (const [name, shell] of Object.entries(shells)) {
  test(`${name}: entrypoint and command are unchanged, for any characters`, () => {
    fc.assert(
      fc.property(words, words, (entrypoint, cmd) => {
        const script = ociRunscript([...show, ...entrypoint], cmd);
        const expected = shown([...entrypoint, ...cmd]) || '<>\n';
        assert.equal(run(shell, script), expected);
        assert.equal(run(shell, script, { env: { SINGULARITY_NO_EVAL: '1' } }), expected);
      }),
      { numRuns: 25 },
    );
  });

  test(`${name}: variables are unchanged, for any characters`, () => {
    fc.assert(
      fc.property(words, values => {
        const script = environmentScript(values.map((value, position) => `V${position}=${value}`));
        const print = values.map((_, position) => `"$V${position}"`).join(' ');
        const output = run(shell, `${script}\nprintf '<%s>\\n' ${print}`);
        assert.equal(output, shown(values) || '<>\n');
      }),
      { numRuns: 25 },
    );
  });

  test(`${name}: arguments replace the command, not the entrypoint`, () => {
    const script = ociRunscript([...show, 'entry'], ['one', 'two']);
    assert.equal(run(shell, script), shown(['entry', 'one', 'two']));
    assert.equal(run(shell, script, { args: ['mine'] }), shown(['entry', 'mine']));
    assert.equal(run(shell, ociRunscript([], [...show, 'one'])), shown(['one']));
    assert.equal(run(shell, ociRunscript([], ['no']), { args: [...show, 'x'] }), shown(['x']));
  });

  test(`${name}: arguments are evaluated, unless the user disables it`, () => {
    const script = ociRunscript(show, []);
    const args = ['$GREETING', 'a b', '*'];
    const env = { GREETING: 'it is  I' };
    assert.equal(run(shell, script, { args, env }), shown(['it is  I', 'a b', '*']));
    const plain = run(shell, script, { args, env: { ...env, SINGULARITY_NO_EVAL: '1' } });
    assert.equal(plain, shown(args));
  });

  test(`${name}: an image without a program requires one, and runs it`, () => {
    const script = ociRunscript([], []);
    assert.throws(() => run(shell, script), /names no program/);
    assert.equal(run(shell, script, { args: [...show, 'x'] }), shown(['x']));
  });
}

test('of variables with one name the last counts, and names that no shell supports are left out', () => {
  const script = environmentScript(['A=1', 'B=b', 'bad-name=x', '1X=x', '=x', 'A=2', 'UID=0']);
  assert.equal(run(dash, `${script}\necho $A $B`), '2 b\n');
  assert.doesNotMatch(script, /bad|1X|UID|=x/);
  for (const shell of Object.values(shells)) {
    assert.equal(run(shell, `${environmentScript(['UID=0', 'PPID=1', 'Z=z'])}\necho $Z`), 'z\n');
  }
});

test('a variable that old clients have set for the user is unchanged, except PATH', () => {
  const script = environmentScript(['A=image', `PATH=${path}:/image`, 'NAKED']);
  const output = run(dash, `${script}\necho "$A" "$PATH"`, { env: { A: 'user' } });
  assert.equal(output, `user ${path}:/image\n`);
});
