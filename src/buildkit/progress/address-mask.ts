// User and password end at the last @ before the path. Matching stays fast: each attempt ends at the next slash.
const userInfo = /(:\/\/)[^\s/?#'"<>]+@/g;
// Matching stays fast: each match takes all of an address that can contain a token.
const webAddress = /\bhttps?:\/\/[^\s?#'"<>]+/gi;
// Source: conda, `split_anaconda_token`. The host of `https://t/` is no token.
const pathToken = /(?<!:\/)\/t\/[^/]+/g;

/**
 * Replaces secrets in every address of the text with `***`: user and password, such as `https://user:token@host`, and the
 * token of a conda channel in the path of a web address, such as `https://host/t/token/channel`.
 */
export function maskAddresses(text: string): string {
  if (!text.includes('://')) return text;
  const masked = text.replace(userInfo, '$1***@');
  if (!masked.includes('/t/')) return masked;
  return masked.replace(webAddress, address => address.replace(pathToken, '/t/***'));
}
