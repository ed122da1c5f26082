import { splitChannel } from '../../../conda/locks/index.ts';
import {
  hasCredentials,
  isUrl,
  oneLine,
  refuse,
  refusePathToken,
  shown,
  tokenFreeUrl,
} from '../text/text-field.ts';

/** The parts of a match specification. */
interface PackageSpec {
  readonly channel?: string;
  readonly name: string;
  /** The text after the name: version, build and conditions in brackets. */
  readonly constraint: string;
}

const specGrammar =
  /^(?:(?<channel>.+)::)?(?<name>[A-Za-z0-9_][A-Za-z0-9_.*-]*)(?<constraint>(?:[ =<>!~[].*)?)$/s;
const constraintGrammar =
  /^[A-Za-z0-9_.+*=<>!|,~^() -]*(?:\[[A-Za-z0-9_.+*=<>!|,~^$?():/'" -]*\])?$/;
const namespace = /^(?!pip:)[A-Za-z0-9_][A-Za-z0-9_.-]*:(?=[A-Za-z0-9_])/;
const channelAndNamespace =
  /^(?!pip:)(?<channel>[A-Za-z0-9_][A-Za-z0-9_./-]*):[A-Za-z0-9_.-]+:(?=[A-Za-z0-9_])/;
// An extra as pip writes it, `black[jupyter]`: conda ignores what is not a condition.
const bareBrackets = /^([^[\]=<>!~ ]{1,300})\[[A-Za-z0-9_., -]{1,200}\](?=$|[ =<>!~])/;
const archiveEnding = /\.(?:conda|tar\.bz2)$/;

/**
 * Reads a package: a match specification such as `samtools`, `samtools=1.20` or `bioconda::samtools>=1.20`, or the URL
 * of a package. Removes enclosing quotes and repeated blanks. Throws a `Fault` for any other text. Source: conda,
 * Package search and install specifications.
 */
export function readPackage(field: string, text: string): string {
  const plain = oneLine(field, text).replace(/^(['"])(.*)\1$/, '$2');
  refusePathToken(field, plain);
  if (isUrl(plain) && !plain.includes('::')) return readPackageUrl(field, plain);
  // conda ignores the namespace before a single colon, `ns:name` and `channel:ns:name`. `pip:` is for pip.
  const spec = oneLine(field, plain)
    .replace(/ +/g, ' ')
    .replace(channelAndNamespace, '$<channel>::')
    .replace(namespace, '')
    .replace(bareBrackets, '$1');
  if (/\bextras\s{0,9}=/.test(spec)) {
    refuse(
      `'${field}': ${shown(spec)} asks for extras of a conda package, which Sluice does not know: list the packages of the extra instead`,
    );
  }
  const { groups } = specGrammar.exec(spec) ?? {};
  if (!groups || !constraintGrammar.test(groups.constraint ?? '')) {
    refuse(
      `'${field}': ${shown(spec)} is not a conda package: write name, name=version or channel::name=version`,
    );
  }
  if (groups.channel !== undefined) readChannel(field, groups.channel);
  else refusePathToken(field, splitChannel(spec).channel ?? '');
  return spec;
}

// A channel or a name with an operator: no version and no build looks like this.
const namedWord =
  /^(?:pip:\S+|[^\s'"[\]:]+(?::[^\s'"[\]:]+)*::[^\s'"]+|[A-Za-z_][A-Za-z0-9_.-]*(?:[=<>!~]=?|\[).+)$/;

/**
 * Returns the packages in an entry of a list: some clients send all packages as one text, `samtools=1.20 bwa=0.7.18`. A
 * text is one package unless another of its words also starts one: `samtools 1.20` and `samtools >=1.19, <2` are.
 */
export function separatePackages(entry: string): readonly string[] {
  const words = entry.trim().split(/\s+/);
  const [first = '', ...others] = words;
  const isQuoted = /['"]/.test(entry);
  const isBracketed = words.some(word => word.lastIndexOf('[') > word.lastIndexOf(']'));
  if (isQuoted || isBracketed || others.length === 0 || !/^[A-Za-z0-9_]/.test(first)) {
    return [entry];
  }
  return others.every(word => namedWord.test(word)) ? words : [entry];
}

/** Returns the parts of a text from {@link readPackage}; undefined for the URL of a package. */
export function parsePackage(spec: string): PackageSpec | undefined {
  const { channel, name = '', constraint = '' } = specGrammar.exec(spec)?.groups ?? {};
  if (name === '' || isPackageUrl(spec)) return undefined;
  return { ...(channel === undefined ? {} : { channel }), name, constraint };
}

/** Returns whether a text is the URL of a package archive, with or without a checksum after `#`. */
export function isPackageUrl(text: string): boolean {
  return isUrl(text) && archiveEnding.test(text.replace(/[#?].*$/s, ''));
}

/** Returns the URL of a package, with `#` and its MD5 or SHA-256 if it has one. Throws a `Fault` for any other URL. */
export function readPackageUrl(field: string, text: string): string {
  const hash = text.indexOf('#');
  const address = hash < 0 ? text : text.slice(0, hash);
  const checksum = hash < 0 ? '' : text.slice(hash);
  const url = tokenFreeUrl(field, address, ['http', 'https', 'file']);
  if (!archiveEnding.test(url)) {
    refuse(`'${field}': ${shown(url)} is not a conda package: its name ends in .conda or .tar.bz2`);
  }
  if (!/^(?:#(?:sha256:)?[0-9a-f]{32}(?:[0-9a-f]{32})?)?$/.test(checksum)) {
    refuse(
      `'${field}': ${shown(checksum)} is not a checksum: write '#' and the MD5, or '#sha256:' and the SHA-256, in lower-case hex`,
    );
  }
  return url + checksum;
}

/**
 * Returns the version that a specification pins: `1.20` for `samtools=1.20`, `samtools==1.20=h1`, `samtools 1.20.*` and
 * `samtools[version=1.20]`; undefined for ranges and for no version.
 */
export function pinnedVersion({ constraint }: PackageSpec): string | undefined {
  const inBrackets = /\[.*?\bversion=(['"]?)([^'"\],]*)\1/.exec(constraint)?.[2];
  const stated = inBrackets ?? constraint.replace(/\[.*$/s, '');
  const pinned = /^ ?={0,2} ?([A-Za-z0-9][A-Za-z0-9_.+!]*?)(?:\.?\*)?(?:[ =].*)?$/.exec(stated);
  return pinned?.[1];
}

/**
 * Reads a line for pip: a requirement or an option such as `--extra-index-url`. Throws a `Fault` for a line that
 * requires a file that does not exist, continues in the next line, or contains credentials. Source: pip, Requirements
 * File Format.
 */
export function readPipRequirement(field: string, text: string): string {
  const line = oneLine(field, text);
  if (line.endsWith('\\')) refuse(`'${field}': ${shown(line)} ends in a backslash: remove it`);
  if (hasCredentials(line)) {
    refuse(
      `'${field}' contains credentials in an address: recipes and logs are not secret, so remove them${/\bgit\+/i.test(line) ? ". A private package belongs at an index that the operator lists with its credentials in 'pypi'" : ''}`,
    );
  }
  const protocol = /\bgit\+([a-z]{1,10}):/i.exec(line)?.[1]?.toLowerCase() ?? '';
  const remedy = closedProtocols[protocol];
  if (remedy !== undefined) refuse(`'${field}' has a repository at git+${protocol}: ${remedy}`);
  if (oneEqualsSign.test(line)) {
    refuse(`'${field}': ${shown(line)} has one '=': pip reads two, as in NAME==VERSION`);
  }
  const instead = insteadOfFile(line);
  if (instead !== undefined) {
    refuse(`'${field}': ${shown(line)} requires a file that the request does not have: ${instead}`);
  }
  return line;
}

/** Protocols of repositories that are not fetched, with what to do instead. */
const closedProtocols: Readonly<Record<string, string>> = {
  ssh: 'the server has no key for it. Write git+https, which requires a public repository',
  file: 'the server does not have your files. Push the repository, and write git+https',
  http: 'anybody on the way could change it. Write git+https',
  git: 'anybody on the way could change it. Write git+https',
};

const oneEqualsSign = /^[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]*\])?\s*=(?!=)/;
// A name with a slash is a directory.
const pathForm = /^(?:[./]|[A-Za-z0-9_-][A-Za-z0-9_.-]*\/)/;
// A short option may have its value without a space.
const requirementOption = /^(?:-r|--requirement\b)/;
const constraintOption = /^(?:-c|--constraint\b)/;
const editableOption = /^(?:-e|--editable\b)[ =]*["']?/;
const archiveName = /\.(?:whl|zip|tar\.gz)(?=["' ;[]|$)/i;

/** Returns what to write in place of a line that requires a file or directory; undefined for other lines. */
function insteadOfFile(line: string): string | undefined {
  if (requirementOption.test(line)) return 'put the lines of that file here';
  if (constraintOption.test(line)) return 'write the versions of that file here';
  const editable = line.replace(editableOption, '');
  const isEditable = editable !== line;
  // What pip can edit is a directory, or a repository that a URL specifies.
  if (!pathForm.test(editable) && (!isEditable || editable.includes(':'))) return undefined;
  return archiveName.test(editable)
    ? 'name the package, and an index that has it with --extra-index-url'
    : 'list what that directory requires, or name its repository as git+https://';
}

/** Returns the name and the pinned version of a requirement; undefined for options, URLs and paths. */
export function parseRequirement(line: string): { name: string; version?: string } | undefined {
  const match = /^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[^\]]*\])?\s*(.*)$/s.exec(line);
  const [, name, rest = ''] = match ?? [];
  if (name === undefined || !/^(?:$|[=<>!~;@#(,])/.test(rest)) return undefined;
  const version =
    /^={2,3}\s*([A-Za-z0-9][A-Za-z0-9_.+!-]*?)(?:\.\*)?\s*(?:[;#].*|--hash.*)?$/s.exec(rest)?.[1];
  return { name, ...(version === undefined ? {} : { version }) };
}

/** Channels for a request that lists none: those of the specification's examples. */
const defaultChannels: readonly string[] = ['conda-forge', 'bioconda'];

// A name with labels or subdirectories, and the platforms in brackets that mamba accepts.
const channelName = /^[A-Za-z0-9_][A-Za-z0-9_./-]*(?:\[[a-z0-9_,-]+\])?$/;

/** Reads a channel: its name, such as `bioconda` or `conda-forge/label/dev`, or its address. Throws a `Fault`. */
export function readChannel(field: string, text: string): string {
  const channel = oneLine(field, text);
  if (isUrl(channel)) return tokenFreeUrl(field, channel, ['http', 'https', 'file', 'oci']);
  refusePathToken(field, channel);
  if (channelName.test(channel)) return channel;
  refuse(`'${field}': ${shown(channel)} is not a conda channel: write its name or its address`);
}

/**
 * Returns the channels in their order, each once: the first has priority. Omits `nodefaults`, since only listed
 * channels are ever used. Returns the default channels for an empty list.
 */
export function orderedChannels(channels: readonly string[]): readonly string[] {
  const listed = new Set(channels.filter(channel => channel !== 'nodefaults'));
  return listed.size > 0 ? [...listed] : defaultChannels;
}
