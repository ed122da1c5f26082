import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { condaKind } from '../../src/builds/recipe/conda/conda-kind.ts';
import type { CondaEnvironment, CondaSource } from '../../src/builds/recipe/conda/conda-source.ts';
import { readBuildSource } from '../../src/builds/recipe/recipe-kinds.ts';
import { isRequirementsFile, readPipLine } from '../../src/pypi/requirements/index.ts';

const [first, second] = ['a'.repeat(64), 'b'.repeat(64)];

function read(text: string): CondaEnvironment {
  const environment = Buffer.from(text).toString('base64');
  const source = readBuildSource({ packages: { type: 'CONDA', environment } }) as CondaSource;
  assert.equal(source.wanted.form, 'environment');
  return source.wanted as CondaEnvironment;
}

test('a file of requirements is read: comments, continued lines, hashes, markers, options', () => {
  const { packages, pip } = read(`# made by hand
--index-url https://pypi.org/simple

six==1.17.0 \\
    --hash=sha256:${second} \\
    --hash=sha256:${first}   # both files
Requests[socks]>=2,<3 ; python_version < "3.13"  # a marker
tomli # for old Pythons\r
`);
  assert.deepEqual(packages, []);
  assert.deepEqual(pip, [
    '--index-url https://pypi.org/simple',
    `six==1.17.0 --hash=sha256:${first} --hash=sha256:${second}`,
    'Requests[socks]>=2,<3 ; python_version < "3.13"',
    'tomli',
  ]);
  assert.deepEqual(readPipLine(pip[1] ?? ''), {
    kind: 'project',
    name: 'six',
    extras: [],
    versions: '==1.17.0',
    hashes: [first, second],
  });
  assert.deepEqual(readPipLine('six==1.17.0 --hash=md5:abc'), {
    kind: 'builder',
    reason: 'a hash that is not SHA-256',
  });
});

test('a requirement may have more hashes than a line has characters', () => {
  const hashes = Array.from({ length: 200 }, (_, at) => at.toString(16).padStart(64, '0'));
  const { pip } = read(`yarl==1.20 ${hashes.map(it => `--hash=sha256:${it}`).join(' \\\n  ')}\n`);
  const line = readPipLine(pip[0] ?? '');
  assert.equal(line.kind === 'project' && line.hashes?.length, 200);
});

test('what a file of requirements cannot ask for is refused with its line', () => {
  const refused = (line: string) => {
    try {
      read(`six\n\n${line}\n`);
    } catch (error) {
      return (error as Error).message;
    }
    return assert.fail(`${line} was taken`);
  };
  assert.match(
    refused('-r other.txt'),
    /line 3': '?-r'?: put the lines of that file into this one/,
  );
  assert.match(refused('--requirement=other.txt'), /put the lines of that file/);
  assert.match(refused('-c pins.txt'), /write the versions of that file/);
  assert.match(refused('-e .'), /the server does not have your directory/);
  assert.match(refused('--find-links /etc'), /does not read directories/);
  assert.match(refused('./local'), /requires a file that the request does not have/);
  assert.match(refused(`six @ https://h/${'$'}{TOKEN}/six.whl`), /environment variable/);
  const secret = refused('--index-url https://user:s3cret@h/simple');
  assert.match(secret, /line 3' contains credentials/);
  assert.doesNotMatch(secret, /s3cret/);
  assert.match(refused('six\n'.repeat(2001)), /more than 2000 requirements/);
});

test('a lock file of Python packages is for a server that installs them itself', () => {
  const sourceOf = (parts: object, condaOpts: object = {}) => {
    const environment = readFileSync(new URL('../pypi/locks/fixtures/uv.lock', import.meta.url));
    return readBuildSource({
      packages: {
        ...{ type: 'CONDA', environment: environment.toString('base64'), condaOpts },
        pipOpts: parts,
      },
    }) as CondaSource;
  };
  const plain = sourceOf({});
  const { maker } = condaKind.recipe(plain, { solvesPython: true });
  assert.equal(maker, 'native');
  // Where a name is made without a server.
  assert.equal(condaKind.recipe(plain, {}).maker, 'native');
  assert.throws(() => condaKind.recipe(plain, { solvesPython: false }), {
    kind: 'bad-request',
    message: /a builder does not read a uv\.lock.*'uv export --format requirements\.txt'/,
  });
  const commands = sourceOf({}, { commands: ['RUN true'] });
  assert.throws(() => condaKind.recipe(commands, { solvesPython: true }), {
    message: /A builder does not read a uv\.lock, and 'condaOpts\.commands' requires one/,
  });
  const keyOf = (source: CondaSource) => JSON.stringify(condaKind.keyFields(source, 'native'));
  const keys = [{}, { extras: ['old'] }, { groups: ['old'] }].map(parts => keyOf(sourceOf(parts)));
  assert.equal(new Set(keys).size, 3);
  assert.equal(keyOf(sourceOf({ extras: ['Old', 'old'] })), keys[1]);
  assert.throws(() => sourceOf({ extras: ['--x'] }), { message: /extras\[0\]'.*is not a name/ });
});

test('extras and groups are for a project', () => {
  const packages = { type: 'CONDA', entries: ['bwa'], pipOpts: { groups: ['dev'] } };
  assert.throws(() => readBuildSource({ packages }), { message: /selects parts of a pyproject/ });
});

test('environment files are not files of requirements', () => {
  for (const text of [
    'dependencies:\n- bwa\n',
    'channels: [bioconda]\ndependencies: [bwa]\n',
    '---\nname: x\ndependencies:\n  - python=3.12\n  - pip:\n    - six\n',
    'samtools=1.20\n',
    '# nothing\n',
  ]) {
    assert.equal(isRequirementsFile(text), false, text);
  }
});
