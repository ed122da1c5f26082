import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPipRequirement } from '../../src/builds/recipe/conda/package-spec.ts';

test('a line for pip that requires a file is refused with what to do', () => {
  const byRemedy = {
    'put the lines of that file here': [
      ...['-r requirements.txt', '-rrequirements.txt', '--requirement requirements.txt'],
    ],
    'write the versions of that file here': [
      ...['-c limits.txt', '-climits.txt', '--constraint=limits.txt'],
    ],
    'list what that directory requires, or name its repository as git+https://': [
      ...['./here', '-e ./here', '-e.', '-e here', '-ehere', '-e "./here[a]"', '../a.whl/b'],
      ...['--editable ./here', '--editable=here', 'submodules/simple-knn', '-e modules/here'],
    ],
    'name the package, and an index that has it with --extra-index-url': [
      ...['./wheels/a-1.0-py3-none-any.whl', '/a/b-1.0.tar.gz', './a.whl[x]', './a.whl ; True'],
    ],
  };
  for (const [remedy, lines] of Object.entries(byRemedy)) {
    for (const line of lines) {
      assert.throws(
        () => readPipRequirement('pip', line),
        ({ message }: Error) =>
          message.endsWith(`requires a file that the request does not have: ${remedy}`),
        line,
      );
    }
  }
});

test('a line for pip may have a repository to edit, and other options', () => {
  const url = 'git+https://git.example.com/a.git#egg=a';
  const options = ['--require-hashes', '--pre', '--extra-index-url https://pypi.example.com'];
  for (const line of [`-e ${url}`, `-e${url}`, `--editable=${url}`, ...options, 'a-e.b', 'r==1'])
    assert.equal(readPipRequirement('pip', line), line);
});

for (const line of ['pandas=2.0.1', 'pandas = 2.0.1', 'uvicorn[standard]=0.20']) {
  test(`a line for pip with the operator of conda is refused: ${line}`, () => {
    assert.throws(
      () => readPipRequirement('pip', line),
      /has one '=': pip reads two, as in NAME==VERSION/,
    );
  });
}

test('a repository that is not at https, or has credentials, is refused with what to do', () => {
  const refused = {
    'a @ git+ssh://git@h/a.git':
      /a repository at git\+ssh: the server has no key for it\. Write git/,
    '-e git+file:///a': /a repository at git\+file: the server does not have your files/,
    'git+http://h/a.git': /a repository at git\+http: anybody on the way could change it/,
    'git+git://h/a.git': /a repository at git\+git: anybody/,
    'git+https://sesame@h/a.git': /contains credentials .* lists with its credentials in 'pypi'/,
  };
  for (const [line, message] of Object.entries(refused)) {
    assert.throws(() => readPipRequirement('pip', line), message);
  }
});
