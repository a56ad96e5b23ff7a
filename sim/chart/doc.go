// Package chart draws what simulations find: a Figure is data that becomes CSV,
// SVG or PNG, and figures and tables become one HTML page that needs no other
// file. It writes to what it is given and opens no file.
package chart
