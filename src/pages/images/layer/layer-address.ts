import { keySeparator } from '../../../images/listing/records/listed-entry.ts';

export const layerPath = '/view/inspect/layer';

/** What the address of a page about a layer says. */
export interface LayerAddress {
  readonly image: string;
  readonly platform?: string | undefined;
  /** As {@link layerName} names it. */
  readonly layer: string;
  /** A directory, as {@link addressText} writes it. Default: the root. */
  readonly path?: string | undefined;
  /** Default: size. */
  readonly sort?: 'size' | 'name' | undefined;
  /** Part of a name that is searched in the whole layer. */
  readonly name?: string | undefined;
  readonly change?: string | undefined;
  readonly page?: number | undefined;
}

// A layer of a stranger has as many long names as it likes, and a page stays small.
const longestLink = 800;

/**
 * Returns how an address names a layer: by its digest, and by its number where the image has the digest more than once.
 *
 * @param at position in the digests, the lowest layer first
 */
export function layerName(digests: readonly string[], at: number): string {
  const digest = digests[at] ?? '';
  const isAlone = digests.indexOf(digest) === digests.lastIndexOf(digest);
  return isAlone ? digest : `${digest}@${at + 1}`;
}

/** Returns the position of the layer that an address names; undefined when the image has no such layer. */
export function layerAt(digests: readonly string[], name: string): number | undefined {
  const [digest = '', number] = name.split('@');
  const at = number === undefined ? digests.indexOf(digest) : Number(number) - 1;
  return at >= 0 && digests[at] === digest ? at : undefined;
}

/** Returns the address for a link in a list; undefined for one that is too long for a list. */
export function listedAddress(address: LayerAddress): string | undefined {
  const text = layerAddress(address);
  return text.length <= longestLink + address.image.length ? text : undefined;
}

/** Returns the address of a page. Leaves out what is usual. */
export function layerAddress(address: LayerAddress): string {
  const { image, platform, layer, path, sort, name, change, page } = address;
  const query = new URLSearchParams({ image });
  if (platform) query.set('platform', platform);
  query.set('layer', layer);
  if (path) query.set('path', path);
  if (sort && sort !== 'size') query.set('sort', sort);
  if (name) query.set('name', name);
  if (change) query.set('change', change);
  if (page && page > 1) query.set('page', String(page));
  return `${layerPath}?${query}`;
}

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

/** Returns the directory of a key, as an address names it. */
export function directoryOfKey(key: string): string {
  return addressText(key.split(keySeparator).slice(0, -1));
}
