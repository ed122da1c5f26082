/**
 * Returns method and target of each request in the bytes of a connection, read by the letter of RFC 9112. Bytes after the
 * last whole one belong to a request that was aborted, which counts too when its head is whole.
 *
 * @throws when the bytes may be read in two ways
 */
export function requestsIn(bytes: Buffer): string[] {
  const found: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf('\r\n\r\n', at);
    if (end < 0) return found;
    const [first = '', ...lines] = bytes.toString('latin1', at, end).split('\r\n');
    const words = /^([A-Z-]+) ([!-~\u0080-\u00ff]+) HTTP\/1\.1$/.exec(first);
    if (!words) throw new Error(`not the first line of a request: ${JSON.stringify(first)}`);
    found.push(`${words[1]} ${words[2]}`);
    const headers = lines.map(line => {
      const header = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([\t -~\u0080-\u00ff]*)$/.exec(line);
      if (!header) throw new Error(`not a header: ${JSON.stringify(line)}`);
      return { name: header[1]?.toLowerCase(), value: header[2] ?? '' };
    });
    const valuesOf = (name: string) =>
      headers.filter(one => one.name === name).map(({ value }) => value);
    const lengths = valuesOf('content-length');
    const codings = valuesOf('transfer-encoding');
    if (lengths.length + codings.length > 1) throw new Error(`two frames: ${lines.join(' | ')}`);
    at = end + 4;
    if (valuesOf('upgrade').length > 0) return found;
    if (codings.length > 0) {
      if (codings[0] !== 'chunked') throw new Error(`another coding: ${codings[0]}`);
      at = endOfChunks(bytes, at);
    } else if (lengths[0] !== undefined) {
      if (!/^[0-9]{1,15}$/.test(lengths[0])) throw new Error(`not a length: ${lengths[0]}`);
      at += Number(lengths[0]);
    }
  }
  return found;
}

function endOfChunks(bytes: Buffer, from: number): number {
  for (let at = from; ; ) {
    const line = bytes.indexOf('\r\n', at);
    if (line < 0) return bytes.length;
    const written = bytes.toString('latin1', at, line);
    if (!/^[0-9a-f]{1,8}$/.test(written)) throw new Error(`not a size: ${JSON.stringify(written)}`);
    const size = Number.parseInt(written, 16);
    at = line + 2 + size;
    if (at + 2 > bytes.length) return bytes.length;
    if (bytes.toString('latin1', at, at + 2) !== '\r\n') throw new Error('a chunk without its end');
    at += 2;
    if (size === 0) return at;
  }
}
