/** What lazy clients read of a layer in the eStargz form. */
interface EstargzLayer {
  /** Digest of its table of contents. */
  readonly tocDigest: string;
  /** Bytes of the tar file inside. */
  readonly tarBytes: number;
}

const tocDigestName = 'containerd.io/snapshot/stargz/toc.digest';
const tarBytesName = 'io.containers.estargz.uncompressed-size';

/** Returns the annotations of its descriptor. Source: stargz-snapshotter, docs/estargz.md. */
export function estargzAnnotations({
  tocDigest,
  tarBytes,
}: EstargzLayer): Readonly<Record<string, string>> {
  return { [tocDigestName]: tocDigest, [tarBytesName]: String(tarBytes) };
}

/** Returns those among the annotations of a descriptor; undefined for a layer of another form. */
export function estargzAnnotationsIn(
  given: Readonly<Record<string, string>> | null | undefined,
): Readonly<Record<string, string>> | undefined {
  const tocDigest = given?.[tocDigestName];
  const tarBytes = given?.[tarBytesName];
  if (tocDigest === undefined || !/^sha256:[0-9a-f]{64}$/.test(tocDigest)) return undefined;
  const isSize = tarBytes !== undefined && /^\d{1,15}$/.test(tarBytes);
  return { [tocDigestName]: tocDigest, ...(isSize ? { [tarBytesName]: tarBytes } : {}) };
}
