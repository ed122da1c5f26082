import type { Random } from './random.ts';

const odd: readonly string[] = [
  ...[
    '',
    ' ',
    '.',
    '..',
    '/',
    '//',
    '%',
    '%00',
    '%2e%2e%2f',
    '%0d%0ax-injected: 1',
    '%ff',
    '%c0%af',
  ],
  ...['\0', '\t', '\u202e', '\ufeff', '🙂', 'é', '\ud800', 'null', 'undefined', 'NaN', '-1', '0'],
  ...['1e309', '9007199254740993', '0x10', '[]', '{}', '"', "'", '`', '\\', '$(id)', '$A', '{{a}}'],
  ...['<script>', '../../etc/passwd', 'file:///etc/passwd', 'http://[', 'http://169.254.169.254/'],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', '*', '?', '#', '@', ':', ';', '|'],
  ...[
    "' OR 1=1 --",
    '%s%n',
    'a:b@c',
    'sha256:',
    `sha256:${'0'.repeat(64)}`,
    `sha512:${'f'.repeat(128)}`,
  ],
  ...[
    '127.0.0.1:1/a',
    '10.0.0.1/a',
    '[::1]:1/a',
    'localhost:1/a',
    'UPPER/Case',
    'a@b',
    'a:b:c',
    '::1',
  ],
];

/** A text that nobody expects. */
export function oddText(random: Random): string {
  switch (random.int(8)) {
    case 0:
      return 'a'.repeat(random.pick([1, 127, 128, 255, 256, 4096, 8193]));
    case 1:
      return random.bytes(random.int(40)).toString('latin1');
    case 2:
      return random.pick(odd) + random.pick(odd);
    case 3:
      return random.pick(['/', '.', '%2f', '*a', '((', '-', ' ']).repeat(random.int(300));
    default:
      return random.pick(odd);
  }
}

/** The text with something in it changed. */
export function mutated(random: Random, text: string): string {
  const at = random.int(text.length + 1);
  const end = Math.min(text.length, at + random.int(4));
  switch (random.int(5)) {
    case 0:
      return text.slice(0, at) + oddText(random) + text.slice(end);
    case 1:
      return text.slice(0, at) + text.slice(end);
    case 2:
      return text.slice(0, at) + text.slice(0, end) + text.slice(at);
    case 3:
      return text.slice(0, at);
    default:
      return text.toUpperCase() === text ? text.toLowerCase() : text.toUpperCase();
  }
}
