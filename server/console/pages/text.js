// How numbers and bytes look to a person.

export function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

/** A moment in UTC, as logs and `zooletctl` have it. */
export function time(ms) {
  if (!ms) return '–';
  const at = new Date(ms);
  const two = (number) => String(number).padStart(2, '0');
  return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())} `
    + `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())} UTC`;
}

export function number(value, digits = 0) {
  if (value === null || value === undefined) return '–';
  return Number(value).toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

export function milliseconds(value) {
  return value === null || value === undefined ? '–' : `${number(value, value < 10 ? 2 : 0)} ms`;
}

export function bytes(count) {
  if (count === null || count === undefined) return '–';
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${number(count / 1024, 1)} KiB`;
  return `${number(count / 1024 / 1024, 1)} MiB`;
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Lines of 16 bytes: where they begin, as numbers, as text. */
export function hexDump(data, from, count) {
  const lines = [];
  for (let at = from; at < Math.min(from + count, data.length); at += 16) {
    const row = Array.from(data.subarray(at, at + 16));
    const numbers = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(47);
    const text = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${numbers}  ${text}`);
  }
  return lines.join('\n');
}

/** Bytes of hexadecimal digits; null if they are something else. */
export function fromHex(text) {
  const digits = text.replace(/\s+/g, '');
  if (digits.length % 2 || /[^0-9a-f]/i.test(digits)) return null;
  return Uint8Array.from({ length: digits.length / 2 }, (_, at) => parseInt(digits.slice(2 * at, 2 * at + 2), 16));
}

export function toBase64(data) {
  let text = '';
  for (let at = 0; at < data.length; at += 8192) text += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(text);
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}
