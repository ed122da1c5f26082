import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type Apptainer,
  type ApptainerUser,
  emulationProblem,
  openApptainer,
} from '../world/apptainer.ts';
import type { Result } from '../world/program.ts';
import { assembleSif } from './assemble.ts';
import { nastyTexts } from './nasty.ts';

const users: readonly ApptainerUser[] = ['root', 'ordinary'];
const show = ['/bin/printf', '<%s>\\n'];
const print = (name: string) => ['sh', '-c', `echo "$${name}"`];

let apptainer: Apptainer;

before(async () => {
  apptainer = await openApptainer();
});

after(() => apptainer?.remove());

function shown(texts: readonly string[]): string {
  return texts.map(text => `<${text}>\n`).join('');
}

function output({ code, stdout, stderr }: Result): string {
  assert.equal(code, 0, stderr);
  return stdout;
}

/** The variables that `env -0` prints. */
function variables(text: string): Record<string, string> {
  const lines = text.split('\0').filter(line => line !== '');
  return Object.fromEntries(
    lines.map(line => [line.split('=', 1)[0], line.replace(/^[^=]*=/, '')]),
  );
}

for (const user of users) {
  describe(`as ${user}`, () => {
    test('entrypoint, command and variables are unchanged, for any characters', async () => {
      const Env = nastyTexts.map((text, position) => `V${position}=${text}`);
      const config = { Env, Entrypoint: [...show, ...nastyTexts], Cmd: nastyTexts };
      const sif = await assembleSif(apptainer, `nasty-${user}`, { config });
      const expected = shown([...nastyTexts, ...nastyTexts]);
      assert.equal(output(await apptainer.run(['run', sif], { user })), expected);
      assert.equal(output(await apptainer.run(['run', '--no-eval', sif], { user })), expected);
      const set = variables(output(await apptainer.run(['exec', sif, 'env', '-0'], { user })));
      const found = nastyTexts.map((_, position) => set[`V${position}`]);
      assert.deepEqual(found, nastyTexts);
    });

    test('arguments replace the command', async () => {
      const config = { Entrypoint: [...show, 'entry'], Cmd: ['one', 'two'] };
      const sif = await assembleSif(apptainer, `arguments-${user}`, { config });
      assert.equal(
        output(await apptainer.run(['run', sif], { user })),
        shown(['entry', 'one', 'two']),
      );
      assert.equal(
        output(await apptainer.run(['run', sif, 'mine', 'a b'], { user })),
        shown(['entry', 'mine', 'a b']),
      );
      const only = await assembleSif(apptainer, `cmd-${user}`, {
        config: { Cmd: [...show, 'one'] },
      });
      assert.equal(output(await apptainer.run(['run', only], { user })), shown(['one']));
      assert.equal(
        output(await apptainer.run(['run', only, ...show, 'x'], { user })),
        shown(['x']),
      );
    });

    test('an image without a shell runs', async () => {
      const config = {
        Env: ['X=$a'],
        Entrypoint: ['/bin/busybox', 'echo'],
        Cmd: ["it's", '$x `y`'],
      };
      const sif = await assembleSif(apptainer, `bare-${user}`, { config, shell: false });
      assert.equal(output(await apptainer.run(['run', sif], { user })), "it's $x `y`\n");
      assert.equal(output(await apptainer.run(['run', sif, 'mine'], { user })), 'mine\n');
      const env = output(await apptainer.run(['exec', sif, '/bin/busybox', 'env'], { user }));
      assert.match(env, /^X=\$a$/m);
    });

    test('the image takes precedence over the machine, and --env over both', async () => {
      const config = { Env: ['A=image', 'B=image', 'PATH=/opt/bin:/bin'] };
      const sif = await assembleSif(apptainer, `env-${user}`, { config });
      const env = { A: 'machine', B: 'machine', C: 'machine', APPTAINERENV_D: 'asked' };
      const set = variables(
        output(await apptainer.run(['exec', '--env', 'B=asked', sif, 'env', '-0'], { user, env })),
      );
      const { A, B, C, D, PATH = '', LD_LIBRARY_PATH } = set;
      assert.deepEqual({ A, B, C, D }, { A: 'image', B: 'asked', C: 'machine', D: 'asked' });
      assert.ok(PATH.startsWith('/opt/bin:/bin:'), PATH);
      assert.ok(PATH.includes('/usr/local/bin'), PATH);
      assert.equal(LD_LIBRARY_PATH, '/.singularity.d/libs');
      const asked = { APPTAINERENV_PREPEND_PATH: '/first', APPTAINERENV_APPEND_PATH: '/last' };
      const changed = variables(
        output(await apptainer.run(['exec', sif, 'env', '-0'], { user, env: asked })),
      );
      assert.match(changed.PATH ?? '', /^\/first:\/opt\/bin:.*:\/last$/);
    });

    test('variables that a script of the image sets are effective', async () => {
      const files = { '.singularity.d/env/91-environment.sh': 'export ADDED="of $A"\n' };
      const sif = await assembleSif(apptainer, `added-${user}`, {
        config: { Env: ['A=a'] },
        files,
      });
      const added = await apptainer.run(['exec', sif, ...print('ADDED')], { user });
      assert.equal(output(added), 'of a\n');
    });

    test('an instance starts, and has the environment', async () => {
      const definition = {
        text: 'bootstrap: docker\nfrom: x\n',
        ...{ headers: {}, labels: {}, startscript: '#!/bin/sh\nexec sleep 600\n' },
      };
      const sif = await assembleSif(apptainer, `instance-${user}`, {
        config: { Env: ['A=a'] },
        definition,
      });
      const name = `sluice-${process.pid}-${user}`;
      output(await apptainer.run(['instance', 'start', sif, name], { user }));
      try {
        const seen = await apptainer.run(['exec', `instance://${name}`, ...print('A')], { user });
        assert.equal(output(seen), 'a\n');
      } finally {
        await apptainer.run(['instance', 'stop', name], { user });
      }
    });
  });
}

test('the start commands of old clients do the same in their own shell', async () => {
  const config = {
    Env: nastyTexts.map((text, at) => `V${at}=${text}`),
    Entrypoint: show,
    Cmd: ['cmd'],
  };
  const sif = await assembleSif(apptainer, 'old', { config });
  const clean = ['exec', '--cleanenv', sif];
  assert.equal(output(await apptainer.run([...clean, '/.run'])), shown(['cmd']));
  assert.equal(output(await apptainer.run([...clean, '/.run', 'mine'])), shown(['mine']));
  assert.equal(output(await apptainer.run([...clean, '/singularity', 'mine'])), shown(['mine']));
  const set = variables(output(await apptainer.run([...clean, '/.exec', 'env', '-0'])));
  assert.deepEqual(
    nastyTexts.map((_, at) => set[`V${at}`]),
    nastyTexts,
  );
  const said = await apptainer.run([...clean, '/.shell', '-c', 'echo "$SHELL"']);
  assert.equal(output(said), '/bin/sh\n');
  assert.match(output(await apptainer.run([...clean, '/.test'])), /no test/);
});

test('an image without a program reports that, and runs a given program', async () => {
  const sif = await assembleSif(apptainer, 'nothing', {});
  const { code, stderr } = await apptainer.run(['run', sif]);
  assert.equal(code, 1);
  assert.match(stderr, /names no program to run/);
  assert.equal(output(await apptainer.run(['run', sif, ...show, 'x'])), shown(['x']));
});

test('labels, scripts and definition can be inspected', async () => {
  const config = { Labels: { 'org.example.name': 'na<me' }, Env: ['A=1'], Cmd: ['/bin/sh'] };
  const sif = await assembleSif(apptainer, 'inspected', { config });
  const inspect = async (flag: string) => output(await apptainer.run(['inspect', flag, sif]));
  const labels = await inspect('--labels');
  assert.match(labels, /^org\.example\.name: na<me$/m);
  assert.match(labels, /^org\.label-schema\.build-arch: amd64$/m);
  assert.match(labels, /^org\.label-schema\.build-date: Thursday_29_February_2024_12:00:00_UTC$/m);
  assert.match(labels, /^org\.label-schema\.usage\.singularity\.deffile\.bootstrap: docker$/m);
  assert.match(await inspect('--runscript'), /^eval "set \${SINGULARITY_OCI_RUN}"$/m);
  assert.match(
    await inspect('--environment'),
    /10-docker2singularity\.sh ===\n#!\/bin\/sh\n(?:.*\n)*?export A$/m,
  );
  assert.equal(await inspect('--deffile'), 'bootstrap: docker\nfrom: registry.test/image:1\n');
});

test('an image for arm64 runs where arm64 is emulated', async t => {
  const problem = await emulationProblem();
  if (problem !== undefined) return t.skip(problem);
  const config = { Env: ["A=it's"], Cmd: ['uname', '-m'] };
  const sif = await assembleSif(apptainer, 'arm64', { config, architecture: 'arm64' });
  const user = 'arm64';
  assert.equal(output(await apptainer.run(['run', sif], { user })), 'aarch64\n');
  assert.equal(output(await apptainer.run(['exec', sif, ...print('A')], { user })), "it's\n");
  const labels = output(await apptainer.run(['inspect', sif], { user }));
  assert.match(labels, /build-arch: arm64/);
  const { stderr } = await apptainer.run(['run', sif]);
  assert.match(stderr, /architecture \(arm64\) could not run/);
});
