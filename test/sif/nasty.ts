/** Texts that a shell interprets if they are not quoted correctly. */
export const nastyTexts: readonly string[] = [
  ...[
    "it's",
    "''",
    '"quoted"',
    'a`id`b',
    '$HOME $\x7bX:-y} $(id) $((1))',
    '\\$x',
    'back\\slash\\n',
    'end\\',
  ],
  ...['two\nlines', '\n', 'line\r\nfeed', 'carriage\rreturn', 'tab\there', ' blanks  around ', ''],
  ...[
    '*',
    '?[a-z]*',
    '~',
    '!x',
    '#no',
    '%s',
    ';|&<>()',
    '{a,b}',
    '-n',
    '--',
    '=',
    'é日本😀',
    '\u0007\u001b[0m',
  ],
];
