import { keySeparator } from '../../images/listing/index.ts';

/** Returns a path for an address. Bytes that are not UTF-8, and percent signs, are written as `%ff`. */
export function addressText(names: readonly string[]): string {
  return names.map(textOfName).join('/');
}

/** Returns the address of something in a directory. */
export function belowAddress(directory: string, name: string): string {
  return directory === '' ? textOfName(name) : `${directory}/${textOfName(name)}`;
}

/** Reads the path of an address. */
export function namesIn(text: string): readonly string[] {
  return text
    .split('/')
    .filter(name => name !== '')
    .map(name =>
      Buffer.from(name)
        .toString('latin1')
        .replace(/%([0-9a-f]{2})/g, (_, hex: string) => String.fromCharCode(Number(`0x${hex}`))),
    );
}

function textOfName(name: string): string {
  const bytes = Buffer.from(name, 'latin1');
  const text = bytes.toString();
  const isText = Buffer.from(text).equals(bytes);
  const escaped = (one: string) => `%${one.charCodeAt(0).toString(16).padStart(2, '0')}`;
  return isText ? text.replaceAll('%', escaped) : name.replace(/[%\x80-\xff]/g, escaped);
}

/** Returns a name of a layer as text. */
export function nameText(name: string): string {
  return Buffer.from(name, 'latin1').toString();
}

/** Returns a key of a listing as the text of a path. */
export function keyText(key: string): string {
  return `/${nameText(key.replaceAll(keySeparator, '/'))}`;
}

/** Returns a key of a listing as an address names it. */
export function keyAddress(key: string): string {
  return addressText(key.split(keySeparator));
}

/** Returns the directory of a key, as an address names it. */
export function directoryOfKey(key: string): string {
  return addressText(key.split(keySeparator).slice(0, -1));
}

/**
 * Returns how an address names a layer: by its digest, and by its number where the image has the digest more than once.
 *
 * @param at position in the digests, the lowest layer first
 */
export function layerName(digests: readonly string[], at: number): string {
  const digest = digests[at] ?? '';
  return repeatedIn(digests).has(digest) ? `${digest}@${at + 1}` : digest;
}

// A page names each of the thousands of layers that an image may have.
const repeated = new WeakMap<readonly string[], ReadonlySet<string>>();

/** Returns the digests that are in a list more than once. */
function repeatedIn(digests: readonly string[]): ReadonlySet<string> {
  const known = repeated.get(digests);
  if (known) return known;
  const seen = new Set<string>();
  const twice = new Set(digests.filter(digest => seen.size === seen.add(digest).size));
  repeated.set(digests, twice);
  return twice;
}

/**
 * Returns the position of a layer; undefined when the image has no such layer.
 *
 * @param name as {@link layerName} returns it, or the number of the layer, counted from 1. Default: the highest
 */
export function layerAt(
  digests: readonly string[],
  name = String(digests.length),
): number | undefined {
  if (/^\d+$/.test(name))
    return digests[Number(name) - 1] === undefined ? undefined : Number(name) - 1;
  const [digest = '', number] = name.split('@');
  const at = number === undefined ? digests.indexOf(digest) : Number(number) - 1;
  return at >= 0 && digests[at] === digest ? at : undefined;
}
