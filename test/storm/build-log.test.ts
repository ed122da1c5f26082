/** What the storm takes for a right log of a build. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readLog } from './build-log.ts';

const header = '#4 [1/2] FROM busybox\n#4 CACHED\n\n#5 [2/2] RUN for n in $(seq 3); do\n';
const lines = (...numbers: number[]) => numbers.map(n => `#5 0.1${n} 1-2 line ${n}\n`).join('');
const done = '#5 DONE 0.3s\n';
const again = '\nThe server was restarted. The build starts again.\n';
const succeeded = '\nThe build succeeded: image is sha256:0\n';

const right: Readonly<Record<string, readonly [text: string, isEnded: boolean]>> = {
  'of a build in one go': [header + lines(1, 2, 3) + done + succeeded, true],
  'that breaks off within a number': [`${header}${lines(1, 2)}#5 0.3 1-2 line 1`, false],
  'with two attempts': [header + lines(1, 2) + again + header + lines(1, 2, 3) + succeeded, true],
  'whose step the builder had': [
    `${header}${lines(1, 2, 3)}${again}${header}#5 CACHED\n${succeeded}`,
    true,
  ],
  'whose step the builder began again': [
    `${header}#5 0.2 1-2 line 1\n${lines(1, 2, 3)}${done}${succeeded}`,
    true,
  ],
  'of a failed build': [`${header}${lines(1)}\nThe build failed: why\n`, true],
  'that is empty': ['', false],
};

const wrong: Readonly<Record<string, string>> = {
  'with a gap': header + lines(1, 3),
  'with its first line twice': header + lines(1, 1),
  'with a line twice': header + lines(1, 2, 2),
  'that begins in the middle': header + lines(2, 3),
  'of a successful build that lacks lines': header + lines(1, 2) + succeeded,
  'whose last attempt lacks lines': header + lines(1, 2, 3) + again + header + lines(1) + succeeded,
};

suite('a log', () => {
  for (const [name, [text, isEnded]] of Object.entries(right)) {
    test(`${name} is right`, () => {
      assert.deepEqual(readLog(text, 3), { isEnded, fault: undefined });
    });
  }

  for (const [name, text] of Object.entries(wrong)) {
    test(`${name} is wrong`, () => assert.notEqual(readLog(text, 3).fault, undefined));
  }
});
