import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { pipLock } from '../../src/builds/recipe/conda/install/conda-recipe.ts';
import { parseDockerfile } from '../../src/builds/recipe/dockerfile/instructions.ts';
import { readBuildSource } from '../../src/builds/recipe/recipe-kinds.ts';
import type { SubmittedBuild } from '../../src/builds/recipe/submitted.ts';
import { requireCommand } from '../world/tools.ts';
import { recipeOf } from './recipe-of.ts';

/**
 * Replaces the package manager: records its arguments, and fails like the real one for packages that require CUDA or do
 * not exist.
 */
const micromamba = `#!/bin/sh
echo "\${CONDA_OVERRIDE_CUDA:+CUDA=$CONDA_OVERRIDE_CUDA }$*" >> "$CALLS"
case "$1 $MODE \${CONDA_OVERRIDE_CUDA:-}" in
  'install cuda ') echo 'error    libmamba Could not solve for environment specs'
                   echo '  __cuda =* *, which is missing on the system.'; exit 1 ;;
  'install locked ') case "$*" in *--freeze-installed*) echo 'no __cuda'; exit 1 ;; esac ;;
  'install broken '*) echo 'nothing provides tool'; exit 1 ;;
  'env '*) printf '@EXPLICIT\\nhttps://x.example.com/a-1-0.conda\\n' ;;
esac
`;
const python = `#!/bin/sh
echo "python $*" >> "$CALLS"
case "$1 $2 $3 $MODE" in *pip-lock.py*) echo '# pip flask==3' ;; '-m pip --version without-pip') exit 1 ;; esac
`;

interface Run {
  readonly status: number | null;
  readonly calls: readonly string[];
  readonly output: string;
  readonly lock: string | undefined;
}

/** Runs the RUN lines of the build stage in a real shell, in a directory that stands for the image. */
function runBuild(submitted: SubmittedBuild, mode = 'fine', served?: string): Run {
  const root = mkdtempSync(join(tmpdir(), 'sluice-recipe-'));
  try {
    const { dockerfile, files } = recipeOf(readBuildSource(submitted));
    const put = (path: string, text: string) => {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
      chmodSync(join(root, path), 0o755);
    };
    put('bin/micromamba', micromamba);
    put('opt/conda/bin/python', python);
    put('calls', '');
    if (served !== undefined) put('sluice/conda.lock', served);
    for (const [path, text] of files) put(`sluice/${path}`, text);
    const { instructions } = parseDockerfile(dockerfile.slice(0, dockerfile.indexOf('AS lock')));
    let result = { status: 0 as number | null, stdout: '', stderr: '' };
    let output = '';
    for (const { name, rest } of instructions) {
      if (name !== 'RUN' || result.status !== 0) continue;
      const script = rest.replaceAll(/\/(?=sluice\/|opt\/conda)/g, `${root}/`);
      const env = { PATH: `${root}/bin:${process.env.PATH}`, CALLS: `${root}/calls`, MODE: mode };
      result = spawnSync('/bin/sh', ['-ec', script], { env, encoding: 'utf8' });
      output += result.stdout + result.stderr;
    }
    const text = (path: string) =>
      existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : undefined;
    return {
      status: result.status,
      calls: (text('calls') ?? '').replaceAll(`${root}/`, '/').split('\n').slice(0, -1),
      output,
      lock: text('sluice/out/conda.lock'),
    };
  } finally {
    rmSync(root, { recursive: true });
  }
}

const entries = (...list: string[]): SubmittedBuild => ({
  packages: { type: 'CONDA', entries: list },
});
const install = 'install --yes --name base --file /sluice/conda.yml';
const end = ['env export --name base --explicit', 'clean --all --yes'];

test('an environment is installed in one attempt', () => {
  const { status, calls, lock } = runBuild(entries('bwa'));
  assert.equal(status, 0);
  assert.deepEqual(calls, [install, ...end]);
  assert.equal(lock, '@EXPLICIT\nhttps://x.example.com/a-1-0.conda\n');
});

test('CUDA is emulated only if the solver misses it, in a second attempt', () => {
  const { status, calls, output } = runBuild(entries('a-tool'), 'cuda');
  assert.equal(status, 0);
  assert.deepEqual(calls, [install, `${install} --dry-run`, `CUDA=99 ${install}`, ...end]);
  assert.match(output, /A package needs CUDA: trying again/);
});

test('a failed installation fails the step, and the log ends with the reason', () => {
  const { status, calls, output } = runBuild(entries('a-tool'), 'broken');
  assert.notEqual(status, 0);
  assert.deepEqual(calls, [install, `${install} --dry-run`]);
  assert.match(output, /nothing provides tool\n$/);
});

test('packages that require CUDA by name get it in the first attempt', () => {
  assert.equal(runBuild(entries('pytorch-gpu'), 'cuda').calls[0], `CUDA=99 ${install}`);
  assert.equal(
    runBuild(entries('a', 'cuda-version=12.4'), 'cuda').calls[0],
    `CUDA=12.4 ${install}`,
  );
});

test('the lock file contains the packages that pip installed', () => {
  const { calls, lock } = runBuild(entries('pip:flask'));
  assert.deepEqual(calls, [install, end[0], 'python /sluice/pip-lock.py', end[1]]);
  assert.equal(lock, '@EXPLICIT\nhttps://x.example.com/a-1-0.conda\n# pip flask==3\n');
});

test('a lock file with pip lines is installed completely, and comes out unchanged', () => {
  const locked = '@EXPLICIT\nhttps://x.example.com/linux-64/a-1-0.conda\n# pip flask==3\n';
  const given = runBuild(entries(locked));
  const pip = 'python -m pip install --no-deps --no-input --requirement /sluice/pip.txt';
  const from = 'install --yes --name base --file /sluice/conda.lock';
  const base =
    'install --yes --name base --freeze-installed --channel conda-forge --channel bioconda conda-forge::procps-ng';
  assert.equal(given.status, 0, given.output);
  const look = 'python -m pip --version';
  assert.deepEqual(given.calls, [from, look, pip, base, ...end]);
  assert.match(given.lock ?? '', /# pip flask==3\n$/);
  const fetched = runBuild(entries('https://x.example.com/conda.lock'), 'fine', locked);
  assert.deepEqual(fetched.calls, given.calls);
  const without = runBuild(entries('https://x.example.com/conda.lock'), 'fine', '@EXPLICIT\n');
  assert.deepEqual(without.calls, [from, base, ...end]);
  const added =
    'install --yes --name base --freeze-installed --channel conda-forge --channel bioconda pip';
  const withoutPip = runBuild(entries(locked), 'without-pip');
  assert.deepEqual(withoutPip.calls, [from, look, added, pip, base, ...end]);
});

test('packages added to locked packages get CUDA if the locked ones require it', () => {
  const { calls, status } = runBuild(
    entries('https://x.example.com/conda.lock'),
    'locked',
    '@EXPLICIT\n',
  );
  const from = 'install --yes --name base --file /sluice/conda.lock';
  const base =
    'install --yes --name base --freeze-installed --channel conda-forge --channel bioconda conda-forge::procps-ng';
  assert.equal(status, 0);
  assert.deepEqual(calls, [from, base, `${base} --dry-run`, `CUDA=99 ${base}`, ...end]);
});

test('the pip part lists what pip installed, and from where', () => {
  const root = mkdtempSync(join(tmpdir(), 'sluice-pip-'));
  try {
    const add = (name: string, installer: string, origin?: object) => {
      const folder = join(root, `${name}-1.0.dist-info`);
      mkdirSync(folder);
      writeFileSync(
        join(folder, 'METADATA'),
        `Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n`,
      );
      writeFileSync(join(folder, 'INSTALLER'), `${installer}\n`);
      if (origin) writeFileSync(join(folder, 'direct_url.json'), JSON.stringify(origin));
    };
    const git = 'https://git.example.com/b.git';
    add('zebra', 'pip');
    add('by-conda', 'conda');
    add('from-git', 'pip', { url: git, vcs_info: { vcs: 'git', commit_id: 'c0ffee' } });
    add('below', 'pip', { url: git, subdirectory: 'x', vcs_info: { vcs: 'git', commit_id: 'c0' } });
    add('archive', 'pip', { url: 'https://x.example.com/a.whl', archive_info: {} });
    add('local', 'pip', { url: 'file:///tmp/x.whl', archive_info: {} });
    writeFileSync(join(root, 'pip-lock.py'), pipLock);
    const printed = spawnSync(requireCommand('python3'), ['-S', join(root, 'pip-lock.py')], {
      env: { PYTHONPATH: root, PATH: process.env.PATH },
      encoding: 'utf8',
    });
    assert.deepEqual(
      printed.stdout.split('\n'),
      [
        '# pip archive @ https://x.example.com/a.whl',
        `# pip below @ git+${git}@c0#subdirectory=x`,
        `# pip from-git @ git+${git}@c0ffee`,
        '# pip local==1.0',
        '# pip zebra==1.0',
        '',
      ],
      printed.stderr,
    );
  } finally {
    rmSync(root, { recursive: true });
  }
});
