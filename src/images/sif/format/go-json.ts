/** Returns compact JSON as Go writes it, with HTML special characters escaped. Members keep their order. */
export function goJson(value: object): string {
  return JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/g,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
