/** Lock files that uv and poetry wrote, of one project. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  isPyproject,
  type ProjectParts,
  pythonLockForm,
  readPyproject,
} from '../../../src/pypi/locks/index.ts';
import { lockedCommit } from '../../../src/pypi/locks/locked-package.ts';
import { MarkerProblem, markerHolds } from '../../../src/pypi/locks/markers.ts';
import { readPythonLock } from '../../../src/pypi/locks/read-python-lock.ts';

const files = ['uv.lock', 'pylock.toml', 'poetry.lock'] as const;
const textOf = (file: string) =>
  readFileSync(new URL(`./fixtures/${file}`, import.meta.url), 'utf8');
const none: ProjectParts = { extras: [], groups: [] };
const system = { machine: 'x86_64', glibc: '2.36' } as const;

async function chosen(name: string, text: string, version: string, parts: ProjectParts = none) {
  const { wheels, lookups } = await readPythonLock.packages({ name, text, version, system, parts });
  const looked = lookups.map(({ name, versions }) => `${name}${versions}`);
  return [...wheels.map(({ name, version }) => `${name}==${version}`), ...looked].sort();
}

const common = ['certifi==2026.5.20', 'h11==0.16.0', 'httpcore==1.0.9', 'httpx==0.28.1'];
const always = [...common, 'markupsafe==3.0.3', 'socksio==1.0.0'];

test('a lock file installs what the project requires on the system, without extras and groups', async () => {
  for (const file of files) {
    const text = textOf(file);
    assert.equal(pythonLockForm(text), file);
    for (const [version, more] of [
      ['3.9.2', ['anyio', 'exceptiongroup', 'idna', 'tomli', 'typing-extensions']],
      ['3.11.2', ['anyio', 'idna', 'typing-extensions']],
      ['3.13.1', ['anyio', 'idna']],
    ] as const) {
      const found = await chosen(file, text, version);
      const names = found.map(one => one.split('==')[0]);
      const expected = [...always.map(one => one.split('==')[0]), ...more].sort();
      assert.deepEqual(names, expected, `${file} for ${version}`);
      assert.deepEqual(
        always.filter(one => !found.includes(one)),
        [],
      );
    }
  }
});

test('the wheel of the system is chosen', async () => {
  const wheelOf = async (version: string, machine: 'x86_64' | 'aarch64') => {
    const order = { name: 'uv.lock', text: textOf('uv.lock'), version, parts: none };
    const { wheels } = await readPythonLock.packages({ ...order, system: { ...system, machine } });
    return wheels.find(({ name }) => name === 'markupsafe');
  };
  const wheel = await wheelOf('3.11.2', 'x86_64');
  assert.match(wheel?.fileName ?? '', /^markupsafe-3\.0\.3-cp311-cp311-manylinux\S+_x86_64\.whl$/);
  assert.match(wheel?.url ?? '', /^https:\/\/files\.pythonhosted\.org\/packages\//);
  assert.match(wheel?.sha256 ?? '', /^[0-9a-f]{64}$/);
  assert.match((await wheelOf('3.12.0', 'aarch64'))?.fileName ?? '', /cp312-manylinux\S+_aarch64/);
});

test('Python is one that the lock file allows and has wheels for', async () => {
  const specOf = async (text: string) =>
    (await readPythonLock.python({ name: 'uv.lock', text, system, parts: none })).spec;
  // markupsafe has wheels for 3.9 to 3.14.
  assert.equal(
    await specOf(textOf('uv.lock')),
    `python ${[14, 13, 12, 11, 10, 9].map(minor => `>=3.9,3.${minor}.*`).join('|')}`,
  );
  const { leftOut } = await readPythonLock.python({
    ...{ name: 'uv.lock', text: textOf('uv.lock'), system, parts: none },
  });
  assert.deepEqual(leftOut, ["the extra 'old'", "the group 'dev'", "the group 'lint'"]);
  const pure = `lock-version = "1.0"\nrequires-python = "~=3.8"\n[[packages]]\nname = "a"\nversion = "1"\nwheels = [{ url = "https://h/a-1-py3-none-any.whl", hashes = { sha256 = "${'a'.repeat(64)}" } }]\n`;
  assert.equal(await specOf(pure), 'python ~=3.8');
});

test('extras and groups are installed where they are asked for', async () => {
  for (const file of ['uv.lock', 'poetry.lock']) {
    const text = textOf(file);
    const plain = await chosen(file, text, '3.11.2');
    const more = async (parts: Partial<ProjectParts>) => {
      const found = await chosen(file, text, '3.11.2', { ...none, ...parts });
      return found.filter(one => !plain.includes(one)).map(one => one.split('==')[0]);
    };
    assert.deepEqual(await more({ extras: ['Old'] }), ['six'], file);
    assert.deepEqual(await more({ groups: ['lint'] }), ['packaging'], file);
    assert.deepEqual(await more({ groups: ['dev'] }), ['iniconfig', 'packaging'], file);
    await assert.rejects(more({ extras: ['new'] }), /it has no extra 'new': it has old/);
  }
});

test('a pyproject.toml says what its project requires', () => {
  const text = textOf('pyproject.toml');
  assert.ok(isPyproject(text));
  const { python, requirements, leftOut } = readPyproject('x', text, none);
  assert.equal(python, 'python >=3.9');
  assert.deepEqual(requirements, [
    'markupsafe>=2',
    'httpx[socks]>=0.28',
    "tomli>=2 ; python_version < '3.11'",
    "colorama ; sys_platform == 'win32'",
  ]);
  assert.deepEqual(leftOut, ["the extra 'old'", "the group 'dev'", "the group 'lint'"]);
  const all = readPyproject('x', text, { extras: ['OLD'], groups: ['dev'] });
  assert.deepEqual(all.requirements.slice(4), ['six', 'iniconfig', 'packaging']);
  const refused = (more: string, parts = none) => {
    try {
      readPyproject('x', more, parts);
    } catch (error) {
      return (error as Error).message;
    }
    return assert.fail('it was taken');
  };
  const all2 =
    '[project]\nname = "a"\n[project.optional-dependencies]\nb = ["c", "A[d]"]\nd = ["e"]\n';
  assert.deepEqual(readPyproject('x', all2, { ...none, extras: ['b'] }).requirements, ['c', 'e']);
  assert.match(refused('[project]\ndynamic = ["dependencies"]'), /are dynamic/);
  assert.match(refused('[tool.poetry]\nname = "x"'), /has no \[project\]/);
  const circle =
    '[dependency-groups]\na = [{ include-group = "a" }]\nb = [{ include-group = "c" }]';
  assert.match(refused(circle, { ...none, groups: ['a'] }), /it requires no package/);
  assert.match(refused(circle, { ...none, groups: ['b'] }), /the group 'c' cannot be found/);
  // Each group is read once: otherwise these would be 8 to the power of 30.
  const level = (at: number) => `g${at} = [${`{ include-group = "g${at + 1}" },`.repeat(8)}]`;
  const levels = Array.from({ length: 30 }, (_, at) => level(at)).join('\n');
  const bomb = `[dependency-groups]\n${levels}\ng30 = ["six"]`;
  assert.deepEqual(readPyproject('x', bomb, { ...none, groups: ['g0'] }).requirements, ['six']);
  assert.match(refused(`[project]\n#${'x'.repeat(40_000)}`), /more than 32768 characters/);
});

const sum = 'a'.repeat(64);
const lockOf = (source: string, more = '') => `version = 1
requires-python = ">=3.9"

[[package]]
name = "demo"
version = "1"
source = { virtual = "." }
dependencies = [{ name = "tool"${more} }]

[[package]]
name = "tool"
version = "2"
${source}
`;

test('a package of a git repository is built from its commit', async () => {
  const id = '0123456789abcdef0123456789abcdef01234567';
  const url = 'https://h.test/tool.git';
  const pylock = (of: string) =>
    `lock-version = "1.0"\ncreated-by = "t"\n\n[[packages]]\nname = "tool"\n[packages.vcs]\ntype = "git"\nurl = "${of}"\ncommit-id = "${id}"\nsubdirectory = "py"\n`;
  const poetry = `[[package]]\nname = "tool"\nversion = "2"\noptional = false\ngroups = ["main"]\nfiles = []\n\n[package.source]\ntype = "git"\nurl = "${url}"\nreference = "main"\nresolved_reference = "${id}"\nsubdirectory = "py"\n\n[metadata]\nlock-version = "2.1"\npython-versions = ">=3.9"\ncontent-hash = "0"\n`;
  const uv = lockOf(`source = { git = "${url}?subdirectory=py&rev=main#${id}" }`);
  for (const [name, text] of [
    ['pylock.toml', pylock(url)],
    ['poetry.lock', poetry],
    ['uv.lock', uv],
  ] as const) {
    const order = { name, text, version: '3.11.2', system, parts: none };
    const { wheels, lookups, commits } = await readPythonLock.packages(order);
    assert.deepEqual([wheels, lookups], [[], []], name);
    assert.deepEqual(commits, [{ name: 'tool', commit: { url, id, subdirectory: 'py' } }], name);
  }
  await assert.rejects(
    chosen('pylock.toml', pylock('https://sesame@h.test/tool.git'), '3.11.2'),
    /^Fault: pylock\.toml: the address of tool contains credentials: remove them$/,
  );
});

test('the address of a repository has nothing that a line of a Dockerfile could take for something else', () => {
  const id = '0123456789abcdef0123456789abcdef01234567';
  const read = (url: string) =>
    lockedCommit('uv.lock', { name: 'tool' }, { url, id, subdirectory: '' })?.url;
  for (const place of ['h.test/r', 'h-2.test:8443/a/r.git', '[2001:db8::1]/r', '[::1]:8443/r']) {
    assert.equal(read(`https://${place}`), `https://${place}`);
  }
  for (const place of [
    ...['a$HOME.h.test/r', '{x}.test/r', "h'.test/r", 'h".test/r', 'h`.test/r', 'h;.test/r'],
    ...['h.test/$HOME', "h.test/r'", 'h.test/"r', 'h.test/a b', 'h.test/a\\b', 'h.test\\a/r'],
    ...['h.test/a\nRUN', 'h.test\n/r', 'h.test/r\n', 'h.test/\tr', 'h.test/%24HOME', 'h.test/*'],
  ]) {
    assert.equal(read(`https://${place}`), undefined, place);
  }
});

test('a package without a wheel is named with what it has', async () => {
  const refused = async (text: string) => {
    try {
      await chosen('uv.lock', text, '3.11.2');
    } catch (error) {
      return (error as Error).message;
    }
    return assert.fail('it was taken');
  };
  assert.match(
    await refused(lockOf('source = { git = "https://h/r?rev=1#abc" }')),
    /^uv\.lock: it has no wheel for Python 3\.11\.2 on Linux x86_64 with glibc 2\.36 of tool 2 \(a git repository\)\./,
  );
  const windows = `source = { registry = "https://pypi.org/simple" }\nwheels = [{ url = "https://h/tool-2-cp311-cp311-win_amd64.whl", hash = "sha256:${sum}" }]`;
  assert.match(await refused(lockOf(windows)), /of tool 2\. Packages/);
  const secret = await refused(
    lockOf(
      `wheels = [{ url = "https://me:s3cret@h/tool-2-py3-none-any.whl", hash = "sha256:${sum}" }]`,
    ),
  );
  assert.match(secret, /the address of tool contains credentials/);
  assert.doesNotMatch(secret, /s3cret/);
  assert.match(await refused(lockOf('', ', version = "3"')), /tool is required and not locked/);
  assert.match(await refused(lockOf('', ', marker = "nonsense"')), /a marker cannot be read/);
  assert.match(await refused(`${lockOf('')}a = [`), /is not a TOML file that can be read/);
});

test('a lock file that is made to take long is refused or read in little time', async () => {
  const read = (text: string) =>
    readPythonLock.python({ name: 'uv.lock', text, system, parts: none });
  const versions = Array.from(
    { length: 60 },
    (_, at) => `[[package]]\nname = "tool"\nversion = "${at}"\n`,
  );
  await assert.rejects(read(`${lockOf('')}${versions.join('\n')}`), /more than 50 versions of one/);
  const many = (tag: string) => Array(40).fill(tag).join('.');
  const wheel = `{ url = "https://h/tool-2-${many('py3')}-none-${many('any')}.whl", hash = "sha256:${sum}" },\n`;
  const spec = await read(lockOf(`wheels = [\n${wheel.repeat(5000)}]`));
  // Such wheels are not taken into account.
  assert.equal(spec.spec, 'python >=3.9');
  const dotted = `${lockOf('')}a${'.a'.repeat(1_900_000)} = 1`;
  await assert.rejects(read(dotted), /takes too long or too much memory to read/);
  await assert.rejects(read(`${lockOf('')}# ${'x'.repeat(4_200_000)}`), /more than 4 million/);
});

test('markers hold as they do for pip', () => {
  const holds = (marker: string) =>
    markerHolds(marker, { version: '3.10.4', machine: 'x86_64', extras: ['A_b'], groups: ['dev'] });
  for (const marker of [
    "python_version >= '3.9' and python_full_version < '3.10.5'",
    "python_version == '3.10.*' or unknown_is_not_read == ''".slice(0, 26),
    "sys_platform != 'win32' and (os_name == 'nt' or platform_machine == \"x86_64\")",
    "python_version not in '3.8 3.9' and 'linux' in sys_platform",
    "python_version ~= '3.8'",
    "extra == 'a-b' and 'dev' in dependency_groups and 'x' not in extras",
    "python_full_version >= '3.10.0rc1' and implementation_name == 'cpython'",
    "platform_release == ''",
  ]) {
    assert.equal(holds(marker), true, marker);
  }
  for (const marker of [
    "python_version < '3.10'",
    "python_version < '3.9' and sys_platform == 'linux' or sys_platform == 'win32'",
    "python_full_version == '3.10'",
    "extra == 'other'",
  ]) {
    assert.equal(holds(marker), false, marker);
  }
  for (const marker of [
    '',
    'x',
    "python_version >= '3' and",
    `${'('.repeat(50)}`,
    "a == 'b'",
    '&',
  ]) {
    assert.throws(() => holds(marker), MarkerProblem, marker);
  }
});
