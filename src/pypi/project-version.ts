// Source: PyPA specifications, Version specifiers, Appendix: Parsing version strings with regular expressions.
const grammar =
  /^v?(?:(\d{1,9})!)?(\d{1,20}(?:\.\d{1,20}){0,30})(?:[-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?(\d{0,20}))?(?:-(\d{1,20})|[-_.]?(post|rev|r)[-_.]?(\d{0,20}))?(?:[-_.]?(dev)[-_.]?(\d{0,20}))?(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?$/;
const preWords: Readonly<Record<string, string>> = {
  alpha: 'a',
  beta: 'b',
  c: 'rc',
  pre: 'rc',
  preview: 'rc',
};

/**
 * Returns what all spellings of the version of a project have in common; undefined for a text that is not such a version. Source: PyPA
 * specifications, Version specifiers, Normalization.
 */
export function projectVersion(text: string): string | undefined {
  const found = grammar.exec(text.toLowerCase());
  if (found === null) return undefined;
  const [
    ,
    epoch = '',
    release = '',
    pre,
    preNumber,
    bare,
    post,
    postNumber,
    dev,
    devNumber,
    local,
  ] = found;
  const numbers = release.split('.').map(number);
  while (numbers.at(-1) === '0') numbers.pop();
  return [
    `${number(epoch)}!${numbers.join('.')}`,
    pre === undefined ? '' : `${preWords[pre] ?? pre}${number(preNumber)}`,
    post === undefined && bare === undefined ? '' : `.post${number(bare ?? postNumber)}`,
    dev === undefined ? '' : `.dev${number(devNumber)}`,
    local === undefined ? '' : `+${local.split(/[-_.]/).map(localPart).join('.')}`,
  ].join('');
}

function number(digits = ''): string {
  return digits.replace(/^0+(?=\d)/, '') || '0';
}

function localPart(part: string): string {
  return /^\d+$/.test(part) ? number(part) : part;
}
