import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPipRequirement } from '../../src/builds/recipe/conda/package-spec.ts';

for (const line of [
  ...['-r requirements.txt', '-rrequirements.txt', '-c limits.txt', '-climits.txt'],
  ...['--requirement requirements.txt', '--constraint=limits.txt'],
  ...['./here', '-e ./here', '-e.', '-e here', '-ehere', '-e "./here[a]"'],
  ...['--editable ./here', '--editable=here', 'submodules/simple-knn', '-e modules/here'],
]) {
  test(`a line for pip that requires a file is refused: ${line}`, () => {
    assert.throws(
      () => readPipRequirement('pip', line),
      /requires a file that is not in the image: list the packages themselves/,
    );
  });
}

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
