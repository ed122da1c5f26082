import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPipLine } from '../../../src/pypi/requirements/index.ts';
import { requirementLine } from '../../../src/pypi/requirements/requirement.ts';

test('a requirement is printed from its parts', () => {
  const printed = (line: string) => {
    const read = readPipLine(line);
    return read.kind === 'project' ? requirementLine(read) : read;
  };
  const cases = {
    six: 'six',
    'Ruamel.YAML': 'ruamel-yaml',
    'six==1.17.0  # the last one': 'six==1.17.0',
    'requests [socks, Use_Chardet] >= 2, < 3': 'requests[socks,use-chardet]>=2,<3',
    'numpy (>=1.26,!=2.0.*)': 'numpy>=1.26,!=2.0.*',
    'tomli~=2.0; python_version < "3.11" and sys_platform != \'win32\'':
      'tomli~=2.0 ; python_version < "3.11" and sys_platform != \'win32\'',
    'torch===2.5.1+cpu': 'torch===2.5.1+cpu',
  };
  for (const [line, expected] of Object.entries(cases)) assert.equal(printed(line), expected);
});

test('an option that changes nothing requires no builder', () => {
  for (const line of ['--prefer-binary', '--trusted-host pypi.org', '--trusted-host=a.org:8080']) {
    assert.deepEqual(readPipLine(line), { kind: 'option' }, line);
  }
  for (const line of ['--prefer-binary --pre', '--trusted-host a --index-url=file:///etc']) {
    assert.equal(readPipLine(line).kind, 'builder', line);
  }
});

test('an index behind a requirement is ignored, as by pip', () => {
  const cases = {
    'torch>=2.1 --index-url https://download.pytorch.org/whl/cpu': '--index-url',
    'torch>=2.1   --extra-index-url=https://me:secret@a.test/simple': '--extra-index-url',
  };
  for (const [line, ignored] of Object.entries(cases)) {
    const read = readPipLine(line);
    assert.deepEqual(read, { ...readPipLine('torch>=2.1'), ignored }, line);
  }
  const others = [
    'torch --index-url https://a.test/simple --find-links /etc',
    'torch --find-links /etc --index-url https://a.test/simple',
    'torch --index-url https://a.test/simple --index-url https://b.test/simple',
    'torch --index-url',
  ];
  for (const line of others) assert.equal(readPipLine(line).kind, 'builder', line);
});

test('an option allows versions that are not final', () => {
  for (const line of ['--pre', ' --pre  # the newest']) {
    assert.deepEqual(readPipLine(line), { kind: 'prereleases' }, line);
  }
});

test('what is not a name with versions is for a builder, and never an option or a path', () => {
  const cases = {
    '--find-links /etc': 'the pip option --find-links',
    '-r /etc/passwd': 'the pip option -r',
    '-e git+https://example.org/a.git': 'the pip option -e',
    '--index-url=file:///etc': 'the pip option --index-url',
    '--extra-index-url https://me:secret@example.org/simple': 'the pip option --extra-index-url',
    '--extra-index-url https://example.org/simple?token=secret': 'the pip option --extra-index-url',
    '--extra-index-url https://example.org/a/../simple': 'the pip option --extra-index-url',
    '--extra-index-url https://example.org/simple --pre': 'the pip option --extra-index-url',
    '--pre=yes': 'the pip option --pre',
    '--pre --find-links /etc': 'the pip option --pre',
    'six --pre': 'the option --pre behind the requirement six',
    './here': 'a path or address for pip',
    '/etc/passwd': 'a path or address for pip',
    'https://example.org/six.whl': 'a path or address for pip',
    'file:///etc/passwd': 'a path or address for pip',
    'git+https://me:secret@example.org/six.git@1': 'a repository for pip',
    'six\\': 'the character \\ in a line for pip',
    'six{0}': 'the character { in a line for pip',
    'six @ file:///etc/passwd': 'the address of six for pip',
    'six @ git+https://example.org/six.git ; python_version < "3.9"':
      'the repository of six for pip',
    'six @ git+https://example.org/six.git@-upload': 'the repository of six for pip',
    'six @ git+https://example.org/six.git@a..b': 'the repository of six for pip',
    'six @ git+https://example.org/../six.git': 'the repository of six for pip',
    'six @ git+https://example.org/six.git#subdirectory=../etc': 'the repository of six for pip',
    'six @ git+https://example.org/six.git#egg=other': 'the repository of six for pip',
    'git+https://example.org/six.git?token=sesame': 'a repository for pip',
    'git+https://a"b.example.org/six.git': 'a repository for pip',
    "git+https://a'b.example.org/six.git": 'a repository for pip',
    'git+https://a;b.example.org/six.git': 'a repository for pip',
    'git+https://a_b.example.org/six.git': 'a repository for pip',
    'git+https://example.org/a"b.git': 'a repository for pip',
    'git+ssh://git@example.org/six.git': 'a repository for pip',
    'six==${VERSION}': 'a variable in a line for pip',
    'six=1.0': 'the requirement of pip for six',
    'six --find-links /etc': 'the option --find-links behind the requirement six',
    'six; --find-links=etc': 'the option --find-links behind the requirement six',
    'six\n--find-links=/etc': 'the requirement of pip for six',
    'six==1.0 --hash=sha256:00': 'a hash that is not SHA-256',
    'six[--find-links]': 'the requirement of pip for six',
  };
  for (const [line, reason] of Object.entries(cases)) {
    assert.deepEqual(readPipLine(line), { kind: 'builder', reason }, line);
  }
});

test('a repository is read as pip and lock files write it', () => {
  const url = 'https://example.org/a/six.git';
  const id = '0123456789abcdef0123456789abcdef01234567';
  const none = { extras: [], revision: undefined, subdirectory: undefined };
  const cases = {
    [`git+${url}`]: { ...none, name: undefined },
    [`Six[B,a] @ git+${url}@feature/x#subdirectory=py/`]: {
      ...{ name: 'six', extras: ['a', 'b'], revision: 'feature/x', subdirectory: 'py' },
    },
    [`git+${url}@v1.0#egg=Six[a]&subdirectory=py`]: {
      ...{ name: 'six', extras: ['a'], revision: 'v1.0', subdirectory: 'py' },
    },
    [`six @ git+${url}?subdirectory=py&rev=main#${id}`]: {
      ...{ name: 'six', extras: [], revision: id, subdirectory: 'py' },
    },
  };
  for (const [line, expected] of Object.entries(cases)) {
    assert.deepEqual(readPipLine(line), { kind: 'repository', url, ...expected }, line);
  }
});

test('an option can name an index', () => {
  const url = 'https://download.pytorch.org/whl/cpu';
  for (const line of [`--extra-index-url ${url}`, `--extra-index-url=${url}/`]) {
    assert.deepEqual(readPipLine(line), { kind: 'index', url, isExtra: true });
  }
  for (const line of [`--index-url ${url}`, `-i ${url}`]) {
    assert.deepEqual(readPipLine(line), { kind: 'index', url, isExtra: false });
  }
});

test('a wheel of a lock file is taken as it is listed', () => {
  const sha256 = 'a'.repeat(64);
  const line = `Six @ https://example.org/f/six-1.17.0-py2.py3-none-any.whl#sha256=${sha256}`;
  assert.deepEqual(readPipLine(line), {
    kind: 'wheel',
    wheel: {
      ...{ name: 'six', version: '1.17.0', fileName: 'six-1.17.0-py2.py3-none-any.whl', sha256 },
      url: 'https://example.org/f/six-1.17.0-py2.py3-none-any.whl',
    },
  });
  for (const other of [
    line.replace('Six', 'seven'),
    line.replace('https://', 'https://me:secret@'),
    line.replace(/#.*/, '').replace('https:', 'http:'),
    line.replace(/#.*/, '#md5=0123'),
    line.replace('#', '#egg=six#'),
    line.replace('.whl', '.whl?signature=sesame'),
    `${line.replace(/#.*/, '')} --hash=sha256:${sha256}`,
    line.replace('/f/', '/f/../g/'),
    line.replace('/f/', '/f/..;/g/'),
    line.replace('/f/', '/f "g": h/'),
  ]) {
    assert.equal(readPipLine(other).kind, 'builder', other);
  }
});

test('a wheel at an address may have no digest', () => {
  const url = 'https://example.org/f/six-1.17.0%2Bcpu-py2.py3-none-any.whl';
  const fileName = 'six-1.17.0+cpu-py2.py3-none-any.whl';
  const wheel = { name: 'six', version: '1.17.0+cpu', fileName, url };
  assert.deepEqual(readPipLine(`Six @ ${url}`), { kind: 'address', wheel });
  assert.deepEqual(readPipLine(`six[B,a] @ ${url}`), {
    kind: 'address',
    wheel,
    extras: ['a', 'b'],
  });
});

test('a source distribution of a lock file is taken as it is listed', () => {
  const sha256 = 'a'.repeat(64);
  const url = 'https://example.org/f/docopt-0.6.2.tar.gz';
  const line = `Docopt @ ${url}#sha256=${sha256}`;
  assert.deepEqual(readPipLine(line), {
    kind: 'source',
    project: {
      ...{ name: 'docopt', version: '0.6.2' },
      source: { fileName: 'docopt-0.6.2.tar.gz', url, sha256 },
    },
  });
  for (const other of [
    line.replace('Docopt', 'six'),
    line.replace('https://', 'https://me:secret@'),
    line.replace(/#.*/, ''),
    line.replace('.tar.gz', '.tar.bz2'),
    line.replace('-0.6.2', ''),
    line.replace('.tar.gz', '.tar.gz?signature=sesame'),
  ]) {
    assert.equal(readPipLine(other).kind, 'builder', other);
  }
});
