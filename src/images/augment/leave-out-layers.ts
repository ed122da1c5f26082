import type { Digest } from '../../oci/digest.ts';
import {
  asObject,
  type Document,
  documentOf,
  memberName,
  parseLossless,
  parseManifest,
  writeJson,
} from '../../oci/index.ts';

/** An image for one platform. */
export interface PlatformImage {
  readonly manifest: Document;
  readonly config: Document;
}

/**
 * Returns an image without some of its layers, for programs that read its files; undefined where none of them would be left out or left.
 * Throws an `OciSyntaxError` for a malformed document.
 */
export function leaveOutLayers(
  { manifest, config }: PlatformImage,
  isLeftOut: (digest: Digest) => boolean,
): PlatformImage | undefined {
  const parsed = parseManifest(manifest);
  if (parsed.kind !== 'manifest') return undefined;
  const stays = parsed.layers.map(({ digest }) => !isLeftOut(digest));
  const count = stays.filter(one => one).length;
  if (count === 0 || count === stays.length) return undefined;
  const ofLayers = (list: unknown): unknown[] | undefined =>
    Array.isArray(list) && list.length === stays.length
      ? list.filter((_, at) => stays[at])
      : undefined;

  const settings = parseLossless(config.bytes, 'config');
  const rootfs = asObject(settings[memberName(settings, 'rootfs')]);
  const diffIds = rootfs && ofLayers(rootfs[memberName(rootfs, 'diff_ids')]);
  if (!rootfs || !diffIds) return undefined;
  rootfs[memberName(rootfs, 'diff_ids')] = diffIds;
  // It pairs its entries with the layers.
  delete settings[memberName(settings, 'history')];
  const shortConfig = documentOf(writeJson(settings), config.mediaType);

  const body = parseLossless(manifest.bytes, 'manifest');
  const layers = ofLayers(body.layers);
  const about = asObject(body.config);
  if (!layers || !about) return undefined;
  const { digest, bytes } = shortConfig;
  body.config = { ...about, digest, size: bytes.length };
  body.layers = layers;
  return { manifest: documentOf(writeJson(body), manifest.mediaType), config: shortConfig };
}
