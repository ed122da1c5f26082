import { TarError } from './tar-entry.ts';
import { maxPaxRecords } from './tar-limits.ts';

/**
 * Reads the records of a PAX extended header. Values have one character per byte. An empty value deletes a
 * record. Throws {@link TarError} for a damaged header. Source: POSIX.1-2017, pax, pax Extended Header.
 */
export function readPaxRecords(body: Buffer): Map<string, string> {
  const records = new Map<string, string>();
  const parts: string[] = [];
  let count = 0;
  for (let start = 0; start < body.length; ) {
    count += 1;
    if (count > maxPaxRecords) {
      throw new TarError(`has a PAX header of more than ${maxPaxRecords} records`);
    }
    const blank = body.indexOf(0x20, start);
    const digits = blank < 0 ? '' : body.toString('latin1', start, Math.min(blank, start + 16));
    const length = /^\d+$/.test(digits) ? Number(digits) : 0;
    const end = start + length;
    const equals = body.indexOf(0x3d, blank);
    const isWhole = length > 0 && end <= body.length && body[end - 1] === 0x0a;
    if (!isWhole || equals < 0 || equals >= end) throw new TarError('has a damaged PAX header');
    const value = body.toString('latin1', equals + 1, end - 1);
    const keyword = body.toString('latin1', blank + 1, equals);
    // The oldest format for the data parts of a sparse file: a record for each offset and each length.
    if (/^GNU\.sparse\.(?:offset|numbytes)$/.test(keyword)) parts.push(value);
    else if (value === '') records.delete(keyword);
    else records.set(keyword, value);
    start = end;
  }
  if (parts.length > 0) records.set('GNU.sparse.map', parts.join(','));
  return records;
}

/** Returns a record as a PAX extended header stores it: `length keyword=value`. The length counts its own digits. */
export function paxRecord(keyword: string, value: string, encoding: 'utf8' | 'latin1'): Buffer {
  const rest = Buffer.from(` ${keyword}=${value}\n`, encoding);
  let digits = 1;
  while (String(rest.length + digits).length > digits) digits += 1;
  return Buffer.concat([Buffer.from(String(rest.length + digits)), rest]);
}
