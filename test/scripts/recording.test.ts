/** The recording of the first minutes, and the picture that is made of it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { movingPicture, type Output } from '../../scripts/recording/moving-picture.ts';
import { type ScreenLine, TerminalScreen } from '../../scripts/recording/terminal-screen.ts';

const textOf = (lines: readonly ScreenLine[]) =>
  lines.map(line => line.map(({ text }) => text).join(''));

test('the screen obeys what the display of a build writes', () => {
  const screen = new TerminalScreen(10, 3);
  screen.write('first\r\nsecond\r\nthird\r\n\x1b[2A\x1b[Jnew\r\n');
  assert.deepEqual(textOf(screen.lines), ['first', 'new', '']);
  screen.write('\r\x1b[Kwaiting\r\x1b[K\x1b[1mbold\x1b[22m rest');
  assert.deepEqual(screen.lines.at(-1), [
    { text: 'bold', look: '1' },
    { text: ' rest', look: '' },
  ]);
  screen.write('\r\n\x1b[?7l0123456789cut\x1b[?7h\r\n0123456789wrapped');
  assert.deepEqual(textOf(screen.lines), ['0123456789', '0123456789', 'wrapped']);
});

test('the moving picture is that of the recording, and a page can show it', () => {
  const file = (name: string) =>
    readFileSync(new URL(`../../docs/pictures/${name}`, import.meta.url), 'utf8');
  const [head = '', ...events] = file('first-minutes.cast').trimEnd().split('\n');
  const { version, width, height, title } = JSON.parse(head);
  assert.equal(version, 2);
  const outputs = events.map((line): Output => {
    const [seconds, kind, text] = JSON.parse(line);
    assert.equal(kind, 'o');
    return [seconds, text];
  });
  assert.deepEqual(
    outputs.map(([seconds]) => seconds),
    outputs.map(([seconds]) => seconds).toSorted((one, other) => one - other),
  );
  const picture = file('first-minutes.svg');
  const shape = { columns: width, rows: height, title: `${title}: packages become an image` };
  assert.equal(movingPicture(outputs, shape), picture, 'run npm run recording');
  assert.doesNotMatch(picture, /<script|\bon\w+=|href="(?!#)/);
  assert.ok(picture.length < 100_000, `${picture.length} bytes`);
});
