# Parses an ini-like text from stdin with named groups, renders it, and squeezes a log.
sections = Hash.new { |hash, key| hash[key] = {} }
current = 'global'
$stdin.each_line(chomp: true).with_index(1) do |line, number|
  case line
  when /\A\s*(?:[#;].*)?\z/ then next
  when /\A\[(?<name>[^\]]+)\]\z/ then current = $~[:name]
  when /\A\s*(?<key>[\w.]+)\s*[:=]\s*(?<value>.*?)\s*\z/
    value = $~[:value]
    sections[current][$~[:key]] =
      case value
      when /\A[+-]?\d+\z/ then value.to_i
      when /\A(?:yes|no)\z/i then value.downcase == 'yes'
      when /\A"(.*)"\z/ then $1.gsub(/\\(.)/) { $1 == 'n' ? "\n" : $1 }
      when /,/ then value.split(/\s*,\s*/)
      else value
      end
  else warn "line #{number}: #{line}"
  end
end
sections.each { |name, pairs| puts "#{name}: #{pairs.map { |key, value| "#{key}=#{value.inspect}" }.join('; ')}" }
text = 'aaabccdddd'
squeezed = text.gsub(/(.)\1+/) { "#{$&.size}#{$1}" }
puts squeezed, squeezed.gsub(/(\d+)(.)/) { $2 * $1.to_i } == text
puts 'the Größe of things'.split.map(&:capitalize).join(' ').tr('a-y', 'b-z').center(30, '*')
puts format('%-10s|%+5d|%08.3f|%x', 'left', 42, Math::PI, 255)
