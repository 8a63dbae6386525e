# A text adventure by metaprogramming: verbs are methods, the world is data. The status is the score.
require 'forwardable'

class World
  ROOMS = {
    shore: { text: 'waves', exits: { north: :forest } },
    forest: { text: 'trees', exits: { south: :shore, east: :cave }, things: %w[rope] },
    cave: { text: 'a deep hole', exits: { west: :forest }, things: %w[pearl] }
  }.freeze
  Error = Class.new(StandardError)
  attr_reader :score

  def initialize
    @room, @bag, @score = :shore, [], 0
    @things = ROOMS.transform_values { |room| room.fetch(:things, []).dup }
  end

  def do_go(where)
    @room = ROOMS[@room][:exits].fetch(where.to_sym) { raise Error, "nothing lies #{where}" }
    "#{ROOMS[@room][:text]} #{@things[@room].map { |thing| "[#{thing}]" }.join}".strip
  end

  def do_take(thing)
    raise Error, "no #{thing} here" unless @things[@room].include?(thing)
    raise Error, 'too deep' if thing == 'pearl' && !@bag.include?('rope')
    @bag << @things[@room].delete(thing)
    @score += thing.size
    "taken: #{@bag.join(', ')}"
  end

  def respond_to_missing?(name, all = false) = name.start_with?('do_') || super
  def method_missing(name, *) = name.start_with?('do_') ? raise(Error, "cannot #{name.to_s.delete_prefix('do_')}") : super
end

world = World.new
while (line = gets) && line.strip != 'quit'
  verb, object = line.split
  begin
    puts world.public_send("do_#{verb}", *object)
  rescue World::Error => e
    puts "! #{e.message}"
  rescue ArgumentError
    puts "! #{verb} what?"
  end
end
exit world.score
